/**
 * `operations`: accepts, changes and shows operations of the ledger. Each subcommand has a file here, and those that act as an operator are in `actions`.
 */
import * as Command from "effect/cli/Command"
import { accept } from "./accept.ts"
import { cancel, hold, release, review } from "./actions.ts"
import { advance } from "./advance.ts"
import { held } from "./held.ts"
import { list } from "./list.ts"
import { show } from "./show.ts"

export const operations = Command.make("operations").pipe(
  Command.withDescription("Accept, advance, cancel, review, hold, release, list and show operations"),
  Command.withSubcommands([accept, advance, cancel, review, hold, held, release, list, show])
)

/**
 * `operations`: accepts, changes and shows operations of the ledger. Each subcommand has a file in `operations`.
 */
import * as Command from "effect/cli/Command"
import { accept } from "./accept.ts"
import { advance } from "./advance.ts"
import { cancel } from "./cancel.ts"
import { held } from "./held.ts"
import { hold } from "./hold.ts"
import { list } from "./list.ts"
import { release } from "./release.ts"
import { review } from "./review.ts"
import { show } from "./show.ts"

export const operations = Command.make("operations").pipe(
  Command.withDescription("Accept, advance, cancel, review, hold, release, list and show operations"),
  Command.withSubcommands([accept, advance, cancel, review, hold, held, release, list, show])
)

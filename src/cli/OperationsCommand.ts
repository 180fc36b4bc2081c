/**
 * `operations`: accepts, changes and shows operations of the ledger. Each subcommand has a file in `operations`.
 */
import * as Command from "effect/cli/Command"
import { accept } from "./operations/accept.ts"
import { advance } from "./operations/advance.ts"
import { cancel } from "./operations/cancel.ts"
import { held } from "./operations/held.ts"
import { hold } from "./operations/hold.ts"
import { list } from "./operations/list.ts"
import { release } from "./operations/release.ts"
import { review } from "./operations/review.ts"
import { show } from "./operations/show.ts"

export const operations = Command.make("operations").pipe(
  Command.withDescription("Accept, advance, cancel, review, hold, release, list and show operations"),
  Command.withSubcommands([accept, advance, cancel, review, hold, held, release, list, show])
)

/**
 * A client program without Effect: keeps a copy of all operations that a grant can read, and prints each change.
 *
 *     GATEWAY_URL=http://127.0.0.1:3000 ACCESS_TOKEN=fingw_… npm run example:fetch -- changes.token
 *
 * The file keeps the place in the change feed, so that a later run continues there. Copied from the installed package, it runs
 * by `node examples/fetch.ts changes.token`.
 */
import { type Client, createClient, ProblemError } from "financial-agents-gateway/client"
import * as fs from "node:fs"

/** Where the program keeps its place in the change feed. */
export interface TokenStore {
  readonly read: () => string | null
  readonly write: (token: string | null) => void
}

/** Prints every change until the signal aborts or the gateway refuses. */
export const copyOperations = async (
  client: Client,
  tokens: TokenStore,
  print: (line: string) => void,
  signal?: AbortSignal
): Promise<void> => {
  try {
    const options = signal === undefined ? {} : { signal }
    for await (const { has_more, next_change_token, operations } of client.changes(tokens.read(), {}, options)) {
      // A change may come twice, so write an operation under its id: later revisions replace earlier ones.
      for (const { id, revision, state, type } of operations) {
        print(`${id}  ${type.padEnd(18)} ${state} (revision ${revision})`)
      }
      // Only now: if the program ends before, the next run gets the page again.
      tokens.write(next_change_token)
      if (!has_more && operations.length > 0) print("Up to date")
    }
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error
    print(error.message)
    // The ledger was restored. The next run reads all operations again.
    if (error.code === "change_token_expired") tokens.write(null)
  }
}

if (import.meta.main) {
  const [file = "changes.token"] = process.argv.slice(2)
  const { ACCESS_TOKEN: accessToken = "", GATEWAY_URL: baseUrl = "http://127.0.0.1:3000" } = process.env
  if (!/^https?:/i.test(baseUrl) || !URL.canParse(baseUrl)) {
    throw new TypeError("GATEWAY_URL must be a URL such as https://gateway.example")
  }
  const client = createClient({ baseUrl, accessToken })
  const tokens: TokenStore = {
    read: () => fs.existsSync(file) ? fs.readFileSync(file, "utf8") : null,
    write: (token) => token === null ? fs.rmSync(file, { force: true }) : fs.writeFileSync(file, token)
  }
  const stopped = new AbortController()
  process.once("SIGINT", () => stopped.abort())
  await copyOperations(client, tokens, (line) => process.stdout.write(`${line}\n`), stopped.signal).catch((error) => {
    if (!stopped.signal.aborted) throw error
  })
}

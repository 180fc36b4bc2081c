/**
 * The fastest usual Node peer: Fastify and postgres.js, which prepares each statement and pipelines them. Like the
 * gateway, one statement authorizes and reads, and all of them share four connections.
 */
import postgres from "postgres"
import { configuration } from "../shared/processes.ts"
import { serve } from "./app.ts"
import { type Found, joined, type OperationRow, type PeerConfig, refusalOf, type Standing } from "./store.ts"

const { database, port, socketDirectory, username } = configuration<PeerConfig>()
const sql = postgres({ host: socketDirectory, port, username, database, max: 4 })

type JoinedRow = Standing & (OperationRow | { readonly id: null })

const read = async (text: string, values: Array<string | Buffer>): Promise<Found> => {
  const rows = await sql.unsafe<Array<JoinedRow>>(text, values, { prepare: true })
  const refusal = refusalOf(rows[0])
  return refusal === null ? { rows: rows.filter((row) => row.id !== null) } : { refusal }
}

await serve({
  find: (digest, id) => read(joined.find, [digest, id]),
  list: (digest, { after, limit }) =>
    after === null ? read(joined.first(limit), [digest]) : read(joined.after(limit), [digest, ...after])
})

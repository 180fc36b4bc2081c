/** The usual Node peer: Fastify and `pg`. Like most applications on it, one statement authorizes and one reads. */
import { Pool } from "pg"
import { configuration } from "../shared/processes.ts"
import { serve } from "./app.ts"
import { type Found, type OperationRow, type PeerConfig, refusalOf, separate, type Standing } from "./store.ts"

const { database, named, port, socketDirectory, username } = configuration<PeerConfig>()
const pool = new Pool({ host: socketDirectory, port, user: username, database, max: 10 })

const query = async <Row>(name: string, text: string, values: ReadonlyArray<unknown>) => {
  const { rows } = await pool.query<Row>(named ? { name, text, values } : { text, values })
  return rows
}

interface GrantRow extends Standing {
  readonly client_id: string
  readonly resource_owner: string
  readonly subject: string
}

/** Authorizes, and then reads the operations of the grant's owner. */
const read = async (
  digest: Buffer,
  name: string,
  text: string,
  values: ReadonlyArray<unknown>
): Promise<Found> => {
  const [grant] = await query<GrantRow>("grant", separate.grant, [digest])
  const refusal = refusalOf(grant)
  if (refusal !== null) return { refusal }
  const { client_id, resource_owner, subject } = grant!
  return { rows: await query<OperationRow>(name, text, [client_id, resource_owner, subject, ...values]) }
}

await serve({
  find: (digest, id) => read(digest, "find", separate.find, [id]),
  list: (digest, { after, limit }) =>
    after === null
      ? read(digest, `first-${limit}`, separate.first(limit), [])
      : read(digest, `after-${limit}`, separate.after(limit), after)
})

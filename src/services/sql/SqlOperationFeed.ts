/**
 * The change feed in PostgreSQL: one statement for each page.
 */
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type ChangePage,
  type ChangeQuery,
  type ChangeToken,
  ChangeTokenExpired,
  type EncodedChanges,
  type LedgerChange,
  type LedgerChanges
} from "../../domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import { advance, afterAllIds, type ChangePlace, startOfLedger, type Unfinished } from "../internal/changePosition.ts"
import {
  type ChangeReader,
  type ChangeTokenContent,
  decodeChangeToken,
  encodeChangeToken,
  grantReader,
  ledgerReader
} from "../internal/changeToken.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"
import { changesOfGrant, changesOfLedger, factAt, lastChange, maxLookedAt } from "./changeStatements.ts"
import { encodeRows, type Values } from "./encodedRows.ts"
import { columnAt, fromRow, rowOf } from "./OperationRow.ts"
import { refusalOf } from "./refusalOf.ts"

/** A page of rows, and the place after it. */
interface RowPage {
  readonly rows: ReadonlyArray<Values>
  readonly next: ChangeTokenContent
  readonly has_more: boolean
}

const notAtHome = new StoreUnavailable({
  cause: new Error("The ledger was moved or restored. Start a worker: it records the new place of the ledger")
})

/** Fails unless the history of the ledger is that of the token. */
const checkHistory = (
  history: unknown,
  token: ChangeTokenContent | null
): Effect.Effect<string, ChangeTokenExpired | StoreUnavailable> => {
  if (typeof history !== "string") return Effect.fail(notAtHome)
  return token === null || token.history === history ? Effect.succeed(history) : Effect.fail(new ChangeTokenExpired())
}

const placeAt = (row: Values): ChangePlace => ({
  // The columns of the statement have these types.
  position: row[factAt.position] as number,
  id: row[columnAt.id] as OperationId
})

/** The rows of a page, from the rows of its statement: one more than the page shows that more follow. */
const toPage = (
  rows: ReadonlyArray<Values>,
  from: ChangeTokenContent | null,
  limit: number
): Effect.Effect<RowPage, ChangeTokenExpired | StoreUnavailable> => {
  // The statement returns at least one row.
  const first = rows[0]!
  return Effect.map(checkHistory(first[factAt.history], from), (history) => {
    const changes = first[factAt.position] === null ? [] : rows
    const matching = changes.filter((row) => row[factAt.matches] === true)
    const page = matching.slice(0, limit)
    const isCut = matching.length > limit
    const last = isCut ? page.at(-1) : changes.at(-1)
    const isWhole = !isCut && (first[factAt.looked] as number | null ?? 0) < maxLookedAt
    const position = advance(from?.position ?? startOfLedger, {
      last: last === undefined ? null : placeAt(last),
      isWhole,
      unfinished: unfinishedOf(first[factAt.running], first[factAt.upcoming])
    })
    return { rows: page, next: { history, position }, has_more: !isWhole }
  })
}

const unfinishedOf = (running: unknown, upcoming: unknown): Unfinished => ({
  // An array of float8, and a float8.
  running: running as ReadonlyArray<number>,
  upcoming: upcoming as number
})

const toLedgerChange = (row: Values): LedgerChange => ({
  operation: fromRow(rowOf(row)),
  // The constraints of the table hold for the names.
  client_id: row[factAt.client_id] as LedgerChange["client_id"],
  resource_owner: row[factAt.resource_owner] as LedgerChange["resource_owner"],
  subject: row[factAt.subject] as LedgerChange["subject"]
})

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const withDigest = Effect.provideService(Digest.Digest, yield* Digest.Digest)

  const decode = (token: ChangeToken | null, reader: ChangeReader) =>
    token === null ? Effect.succeed(null) : withDigest(decodeChangeToken(token, reader))

  const encode = (content: ChangeTokenContent, reader: ChangeReader) => withDigest(encodeChangeToken(content, reader))

  const pageOfGrant = Effect.fnUntraced(function*(grant: GrantIdentity, query: ChangeQuery) {
    const reader = grantReader(grant, query)
    const from = yield* decode(query.after, reader)
    const { parameters, text } = changesOfGrant(grant, from?.position ?? startOfLedger, query)
    const rows = yield* orUnavailable(sql.unsafe(text, parameters).values)
    const refused = refusalOf(grant, rows[0]?.[factAt.standing])
    if (refused !== null) return yield* refused
    const page = yield* toPage(rows, from, query.page_size)
    return { ...page, token: yield* encode(page.next, reader) }
  })

  const since = Effect.fn("OperationFeed.since")(function*(grant: GrantIdentity, query: ChangeQuery) {
    const { has_more, rows, token } = yield* pageOfGrant(grant, query)
    return { operations: rows.map((row) => fromRow(rowOf(row))), next: token, has_more } satisfies ChangePage
  })

  const sinceEncoded = Effect.fnUntraced(function*(grant: GrantIdentity, query: ChangeQuery) {
    const { has_more, rows, token } = yield* pageOfGrant(grant, query)
    const { count, json } = yield* encodeRows(rows, rows.length)
    return { json, count, next: token, has_more } satisfies EncodedChanges
  })

  const sinceInLedger = Effect.fn("OperationFeed.sinceInLedger")(function*(after: ChangeToken | null, limit: number) {
    const from = yield* decode(after, ledgerReader)
    const { parameters, text } = changesOfLedger(from?.position ?? startOfLedger, limit)
    const { has_more, next, rows } = yield* toPage(
      yield* orUnavailable(sql.unsafe(text, parameters).values),
      from,
      limit
    )
    return {
      changes: rows.map(toLedgerChange),
      unfinished: next.position.pending[0]?.position ?? null,
      next: yield* encode(next, ledgerReader),
      has_more
    } satisfies LedgerChanges
  })

  const now = Effect.gen(function*() {
    const [row] = yield* orUnavailable(sql.unsafe<LastChange>(lastChange))
    const history = yield* Effect.catchTag(checkHistory(row!.history, null), "ChangeTokenExpired", Effect.die)
    const unfinished = unfinishedOf(row!.running, row!.upcoming)
    const last = row!.position === null ? null : { position: row!.position, id: afterAllIds }
    const position = advance(startOfLedger, { last, isWhole: true, unfinished })
    return yield* encode({ history, position }, ledgerReader)
  }).pipe(Effect.withSpan("OperationFeed.now"))

  return { since, sinceEncoded, sinceInLedger, now }
})

interface LastChange {
  readonly position: number | null
  readonly history: string | null
  readonly running: ReadonlyArray<number>
  readonly upcoming: number
}

/** The change feed in PostgreSQL: one statement for each page. */
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type ChangePage,
  type ChangeQuery,
  type ChangeToken,
  ChangeTokenExpired,
  InvalidChangeToken,
  isFiltered,
  type LedgerChange,
  type LedgerChanges,
  type RunSlowRead
} from "../../../domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../../domain/Grant.ts"
import type { Operation, OperationId } from "../../../domain/Operation.ts"
import {
  advance,
  afterAllIds,
  type ChangePlace,
  type ChangePosition,
  type ChangeTokenContent,
  grantReader,
  isCovered,
  ledgerReader,
  openChangeToken,
  type OpenedToken,
  ownerDigest,
  sealChangeToken,
  startOfLedger,
  type Unfinished
} from "../../rules/changeToken.ts"
import { orUnavailable, StoreUnavailable } from "../../StoreUnavailable.ts"
import { TokenCipher } from "../../TokenCipher.ts"
import { columnAt, fromValues, type Values } from "../OperationRow.ts"
import { changesOfGrant, changesOfLedger, factAt, lastChange, markOf, maxLookedAt } from "./changeStatements.ts"
import { refusalOf } from "./readStatements.ts"
import { ListClient } from "./SqlOperationStore.ts"

interface RowPage {
  readonly rows: ReadonlyArray<Values>
  readonly position: ChangePosition
  readonly has_more: boolean
}

const notAtHome = new StoreUnavailable({
  cause: new Error(
    "The ledger was moved, restored or failed over. Start a worker: it records the new place of the ledger"
  )
})

const placeAt = (row: Values): ChangePlace => ({
  // The columns of the statement have these types.
  position: row[factAt.position] as number,
  id: row[columnAt.id] as OperationId
})

/** The rows of a page, from the rows of its statement: one more than the page shows that more follow. */
const toPage = (
  rows: ReadonlyArray<Values>,
  { from, limit }: { readonly from: ChangePosition; readonly limit: number }
): RowPage => {
  // The statement returns at least one row.
  const first = rows[0]!
  const changes = first[factAt.position] === null ? [] : rows
  const matching = changes.filter((row) => row[factAt.matches] === true)
  const page = matching.slice(0, limit)
  const isCut = matching.length > limit
  const last = isCut ? page.at(-1) : changes.at(-1)
  const isWhole = !isCut && (first[factAt.looked] as number | null ?? 0) < maxLookedAt
  const position = advance(from, {
    last: last === undefined ? null : placeAt(last),
    isWhole,
    unfinished: unfinishedOf(first[factAt.running], first[factAt.upcoming])
  })
  return { rows: page, position, has_more: !isWhole }
}

const unfinishedOf = (running: unknown, upcoming: unknown): Unfinished => ({
  // An array of float8, and a float8.
  running: running as ReadonlyArray<number>,
  upcoming: upcoming as number
})

const toLedgerChange = (operation: Operation, row: Values): LedgerChange => ({
  operation,
  // The constraints of the table hold for the names.
  client_id: row[factAt.client_id] as LedgerChange["client_id"],
  resource_owner: row[factAt.resource_owner] as LedgerChange["resource_owner"],
  subject: row[factAt.subject] as LedgerChange["subject"]
})

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const withDigest = Effect.provideService(Digest.Digest, yield* Digest.Digest)

  const cipher = yield* TokenCipher
  const slowReads = (yield* ListClient) ?? sql

  /** Whether the present history has all that the reader of the token has seen, in an earlier one. */
  const isContinued = ({ history, position }: ChangeTokenContent) =>
    Effect.map(
      orUnavailable(sql.unsafe<ChangeMark>(markOf, [history])),
      (marks) => marks.some((mark) => isCovered(position, mark))
    )

  /** The present history. Fails if the token belongs to another one. */
  const checkHistory = Effect.fnUntraced(function*(row: Values, token: ChangeTokenContent | null) {
    const history = row[factAt.history]
    if (typeof history !== "string") return yield* notAtHome
    if (token === null) return history
    const latest = row[factAt.latest]
    // Only a server that was put back to an earlier state, such as a snapshot of its disk, has not come as far as the token.
    const isAhead = typeof latest === "number" && token.position.high.position >= latest
    if (!isAhead && (token.history === history || (yield* isContinued(token)))) return history
    return yield* new ChangeTokenExpired()
  })

  const since = Effect.fnUntraced(function*(
    grant: GrantIdentity,
    query: ChangeQuery,
    runSlow: RunSlowRead = identity
  ) {
    const reader = grantReader(grant, query)
    const from = query.after === null ? null : yield* openChangeToken(cipher, query.after, reader)
    const position = from?.position ?? startOfLedger
    const { parameters, text } = changesOfGrant(grant, position, query)
    const isSlow = position.pending.length > 0 || isFiltered(query)
    const read = orUnavailable((isSlow ? slowReads : sql).unsafe(text, parameters).values)
    const rows = yield* isSlow ? runSlow(read) : read
    const refused = refusalOf(grant, rows[0]?.[factAt.standing])
    if (refused !== null) return yield* refused
    const first = rows[0]!
    // The grant's column has this type.
    const owner = yield* withDigest(ownerDigest(first[factAt.resource_owner] as string))
    if (from !== null && from.owner !== owner) return yield* new InvalidChangeToken()
    const history = yield* checkHistory(first, from)
    const page = toPage(rows, { from: position, limit: query.page_size })
    const token = yield* sealChangeToken(cipher, { history, owner, position: page.position }, reader, from)
    return { operations: yield* fromValues(page.rows), next: token, has_more: page.has_more } satisfies ChangePage
  })

  const sealOfLedger = (history: string, position: ChangePosition, from: OpenedToken | null) =>
    sealChangeToken(cipher, { history, owner: "", position }, ledgerReader, from)

  const sinceInLedger = Effect.fn("OperationFeed.sinceInLedger")(function*(after: ChangeToken | null, limit: number) {
    const from = after === null ? null : yield* openChangeToken(cipher, after, ledgerReader)
    const position = from?.position ?? startOfLedger
    const { parameters, text } = changesOfLedger(position, limit)
    const read = yield* orUnavailable(sql.unsafe(text, parameters).values)
    const history = yield* checkHistory(read[0]!, from)
    const page = toPage(read, { from: position, limit })
    const operations = yield* Effect.orDie(fromValues(page.rows))
    return {
      changes: operations.map((operation, index) => toLedgerChange(operation, page.rows[index]!)),
      unfinished: page.position.pending[0]?.position ?? null,
      next: yield* sealOfLedger(history, page.position, from),
      has_more: page.has_more
    } satisfies LedgerChanges
  })

  const now = Effect.gen(function*() {
    const [row] = yield* orUnavailable(sql.unsafe<LastChange>(lastChange))
    const { history } = row!
    if (history === null) return yield* notAtHome
    const unfinished = unfinishedOf(row!.running, row!.upcoming)
    const last = row!.position === null ? null : { position: row!.position, id: afterAllIds }
    const position = advance(startOfLedger, { last, isWhole: true, unfinished })
    return yield* sealOfLedger(history, position, null)
  }).pipe(Effect.withSpan("OperationFeed.now"))

  return { since, sinceInLedger, now }
})

interface ChangeMark {
  readonly high: number
  readonly pending: ReadonlyArray<number>
}

interface LastChange {
  readonly position: number | null
  readonly history: string | null
  readonly running: ReadonlyArray<number>
  readonly upcoming: number
}

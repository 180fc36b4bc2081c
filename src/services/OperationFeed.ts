/** The change feed: what changed since a token, for one grant and for the whole ledger. */
import * as Context from "effect/Context"
import type * as Aead from "effect/crypto/Aead"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type {
  ChangePage,
  ChangeQuery,
  ChangeToken,
  ChangeTokenExpired,
  InvalidChangeToken,
  LedgerChange,
  LedgerChanges,
  RunSlowRead
} from "../domain/ChangeFeed.ts"
import type { GrantIdentity, GrantRefusal } from "../domain/Grant.ts"
import type { MalformedOperation } from "../domain/Operation.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeFeed } from "./memory/MemoryReads.ts"
import { makeSql } from "./sql/reads/SqlOperationFeed.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"
import { TokenCipher } from "./TokenCipher.ts"

export type { ChangeToken, LedgerChange }

/** Why a token cannot be used. */
export type ChangeTokenError = ChangeTokenExpired | InvalidChangeToken

/**
 * Reads of changes. Each call returns the current state of the operations that changed since the token, and the next token. A
 * reader that continues from token to token sees each change at least once, and the revision of an operation never goes back.
 * A later change replaces an earlier one that was not read yet.
 *
 * Concurrent transactions commit in any order. The feed skips none, and waits for one only if more than 200 others run:
 * docs/operations.md tells how.
 */
export class OperationFeed extends Context.Service<OperationFeed, {
  /**
   * The changes of the operations that the grant may see. The token is opened before any statement. One statement checks the
   * grant as every read does, and its cost depends on the page alone. If nothing changed, the next token is the given one. A slow
   * statement runs in `runSlow`. `MalformedOperation` is that of `OperationStore`.
   */
  readonly since: (
    grant: GrantIdentity,
    query: ChangeQuery,
    runSlow?: RunSlowRead
  ) => Effect.Effect<ChangePage, GrantRefusal | ChangeTokenError | MalformedOperation | StoreUnavailable>
  /**
   * The changes of all operations, for an outbox: no HTTP client reaches it. `limit` is the largest number of changes in the
   * page. Null is the start of the ledger.
   */
  readonly sinceInLedger: (
    after: ChangeToken | null,
    limit: number
  ) => Effect.Effect<LedgerChanges, ChangeTokenError | StoreUnavailable>
  /** The token for `sinceInLedger` after which only later changes follow. */
  readonly now: Effect.Effect<ChangeToken, StoreUnavailable>
}>()("financial-agents-gateway/services/OperationFeed") {
  /** With the cipher of its tokens, which seals page tokens as well. */
  static readonly layer: Layer.Layer<
    OperationFeed | TokenCipher,
    never,
    SqlClient.SqlClient | Aead.Aead | Digest.Digest | SecureRandom.SecureRandom
  > = Layer.effect(
    OperationFeed,
    Effect.map(makeSql, (feed) => OperationFeed.of(feed))
  ).pipe(Layer.provideMerge(TokenCipher.layer))

  /** The same in memory. */
  static readonly layerMemory: Layer.Layer<
    OperationFeed | TokenCipher,
    never,
    MemoryLedger | Aead.Aead | Digest.Digest | SecureRandom.SecureRandom
  > = Layer.effect(
    OperationFeed,
    Effect.map(makeFeed, (feed) => OperationFeed.of(feed))
  ).pipe(Layer.provideMerge(TokenCipher.layerMemory))
}

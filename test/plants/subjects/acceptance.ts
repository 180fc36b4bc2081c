/** Mistakes in acceptances: a request binding always returns its operation, and only a good grant binds a key. */
import { type Plant, postgres } from "../Plant.ts"

const statements = "src/services/sql/acceptStatements.ts"
const one = "src/services/sql/SqlAcceptance.ts"
const all = "src/services/sql/SqlAcceptAll.ts"

export const acceptance: ReadonlyArray<Plant> = [
  {
    rule: "an acceptance and a deactivation of its client always have an order",
    file: statements,
    from: "FOR SHARE OF g, c, p NOWAIT",
    to: "FOR SHARE OF g, p NOWAIT",
    tests: [postgres("services/Revocation", "are ordered: a request waits")]
  },
  {
    rule: "an acceptance and a revocation of its grant always have an order",
    file: statements,
    from: "FOR SHARE OF g, c, p NOWAIT",
    to: "FOR SHARE OF c, p NOWAIT",
    tests: [postgres("services/Revocation", "are ordered")]
  },
  {
    rule: "an acceptance never waits for a locked row with its connection",
    file: statements,
    from: "FOR SHARE OF g, c, p NOWAIT",
    to: "FOR SHARE OF g, c, p",
    tests: [postgres("services/LockedRows")]
  },
  {
    rule: "a disconnected provider takes no operation",
    file: statements,
    from: " AND s.scope_granted AND s.provider_connected\"",
    to: " AND s.scope_granted\"",
    tests: [postgres("services/Acceptance"), postgres("services/Storage"), postgres("services/Standing")]
  },
  {
    rule: "a request binding is only for the same resource owner",
    file: statements,
    from: " AND o.resource_owner = g.resource_owner AS same_request",
    to: " AS same_request",
    tests: [postgres("services/Acceptance"), postgres("services/AcceptAll")]
  },
  {
    rule: "of the requests of a batch with one key, always the first one counts",
    file: statements,
    from: "ORDER BY r.key COLLATE \"C\", r.position\n",
    to: "ORDER BY r.key COLLATE \"C\", r.position DESC\n",
    tests: [postgres("services/AcceptAll")]
  },
  {
    rule: "the scopes of a credential limit those of its grant",
    file: statements,
    from: "($4 = ANY (g.scopes) AND ($5::text[] IS NULL OR $4 = ANY ($5)))",
    to: "($4 = ANY (g.scopes))",
    tests: [postgres("services/AcceptanceScope"), postgres("services/Acceptance")]
  },
  {
    rule: "another request under a bound key is always refused",
    file: one,
    from: "if (bound === undefined || !bound.same_request) return",
    to: "if (bound === undefined) return",
    tests: [postgres("services/Acceptance")]
  },
  {
    rule: "a repeated request of one batch gets the operation only if it is the same",
    file: all,
    from: ": repeated(operation, digest === prepared.digest)",
    to: ": repeated(operation, true)",
    tests: [postgres("services/AcceptAll")]
  },
  {
    rule: "a request before the first accepted one of its key never gets its operation",
    file: all,
    from: "if (creation !== undefined && index >= creation.prepared.index) {",
    to: "if (creation !== undefined) {",
    tests: [postgres("services/AcceptAll"), postgres("services/UnsendablePayloads")]
  },
  {
    rule: "a defect of one request never fails the others of its batch",
    file: all,
    from: "          Effect.forEach(batch, (prepared) => acceptAlone(grant, prepared, scope))",
    to: "          Effect.succeed(batch.map((): Acceptance => Exit.die(defect)))",
    tests: [postgres("services/AcceptAll")]
  }
]

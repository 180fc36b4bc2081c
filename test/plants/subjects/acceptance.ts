/** Mistakes in acceptances: a request binding always returns its operation, and only a good grant binds a key. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const acceptances = "src/services/sql/ledger/SqlAcceptances.ts"

const limits = "migrations/0034_limits.sql"
const inPostgres = (name: string) => [postgres("services/ledger/LimitsInPostgres", name)]
const limitTests = (name: string) => [postgres("services/ledger/Limits", name)]

export const acceptance: ReadonlyArray<Plant> = [
  {
    rule: "acceptances of a grant with limits take turns",
    file: limits,
    from: "IF NOT pg_try_advisory_xact_lock(hashtextextended(NEW.grant_id || ' ' || NEW.client_id, 33)) THEN",
    to: "IF false THEN",
    tests: inPostgres("answer by no sums")
  },
  {
    rule: "each request of a batch uses up the limits for the next",
    file: limits,
    from: "o.limit_currency = v_currency AND o.created_at >= v_since",
    to: "o.limit_currency = v_currency AND o.created_at >= v_since AND o.created_at < p_at",
    tests: inPostgres("answer as in memory")
  },
  {
    rule: "requests of a batch use up the limits in their order",
    file: acceptances,
    from: "CASE WHEN s.is_limited THEN '' ELSE r.key END COLLATE",
    to: "CASE WHEN s.is_limited THEN r.key ELSE r.key END COLLATE",
    tests: inPostgres("answer as in memory")
  },
  {
    rule: "an operation of a grant with limits has an amount, of every program",
    file: limits,
    from: "WHEN (NEW.acceptance IS NOT NULL) EXECUTE",
    to: "WHEN (NEW.acceptance IS NOT NULL AND NEW.limit_amount IS NOT NULL) EXECUTE",
    tests: inPostgres("hold for every other program")
  },
  {
    rule: "operations of another program exceed no budget together",
    file: limits,
    from: "  IF v_limits IS NOT NULL OR NEW.acceptance IS NOT NULL THEN",
    to: "  IF NEW.acceptance IS NOT NULL THEN",
    tests: inPostgres("hold for every other program")
  },
  {
    rule: "no operation of another program is of a currency without a limit",
    file: limits,
    from: "    WHEN lacks_currency THEN",
    to: "    WHEN lacks_currency AND p_payee IS NOT NULL THEN",
    tests: inPostgres("hold for every other program")
  },
  {
    rule: "limits are checked by sums that are as new as the lock",
    file: limits,
    from: "  IF current_setting('transaction_isolation') <> 'read committed' THEN",
    to: "  IF false THEN",
    tests: inPostgres("hold for every other program")
  },
  {
    rule: "an operation keeps what it reserves",
    file: limits,
    from: "(OLD.limit_amount, OLD.limit_currency))",
    to: "(NEW.limit_amount, OLD.limit_currency))",
    tests: inPostgres("hold for every other program")
  },
  {
    rule: "limits refuse no repetition of a request without terms",
    file: acceptances,
    from: "      CASE WHEN s.is_limited THEN nullif(r.amount, '')::numeric END,",
    to: "      CASE WHEN s.is_limited THEN r.amount::numeric END,",
    tests: limitTests("refuse no repetition of a request that had")
  },
  {
    rule: "limits have only time zones that PostgreSQL reads as the code does",
    file: "src/domain/AuthorizationDetails.ts",
    from: "/^(?:UTC|(?:Africa",
    to: "/^(?:[A-Z]{3}|(?:Africa",
    tests: inPostgres("take only time zones")
  },
  {
    rule: "only an operation that failed or was cancelled gives its amount back",
    file: limits,
    from: "    AND o.limit_amount IS NOT NULL AND o.state NOT IN ('failed', 'cancelled')",
    to: "    AND o.limit_amount IS NOT NULL AND o.state NOT IN ('failed', 'cancelled', 'indeterminate')",
    tests: limitTests("keep an amount")
  },
  {
    rule: "where clocks go back over midnight, a day begins at the first one",
    file: limits,
    from: "= p_day THEN interval '1 hour'",
    to: "= p_day THEN interval '0'",
    tests: inPostgres("have the same windows")
  },
  {
    rule: "a problem after which a mutation may be recorded says to keep its key",
    file: "src/api/ProblemKinds.ts",
    from: "A POST keeps its Idempotency-Key: under a new one, it may happen twice.",
    to: "",
    tests: [unit("api/Problems", "warns of a new Idempotency-Key")]
  },
  {
    rule: "an acceptance and a deactivation of its client always have an order",
    file: acceptances,
    from: "FOR SHARE OF g, c, p NOWAIT",
    to: "FOR SHARE OF g, p NOWAIT",
    tests: [postgres("services/grants/RevocationRaces", "are ordered: a request waits")]
  },
  {
    rule: "an acceptance and a revocation of its grant always have an order",
    file: acceptances,
    from: "FOR SHARE OF g, c, p NOWAIT",
    to: "FOR SHARE OF c, p NOWAIT",
    tests: [postgres("services/grants/RevocationRaces", "are ordered")]
  },
  {
    rule: "an acceptance never waits for a locked row with its connection",
    file: acceptances,
    from: "FOR SHARE OF g, c, p NOWAIT",
    to: "FOR SHARE OF g, c, p",
    tests: [postgres("services/ledger/LockedRows")]
  },
  {
    rule: "an acceptance that finds its operation is planned once for each connection",
    file: acceptances,
    from: "$6::text[] AS digests OFFSET 0) a",
    to: "$6::text[] AS digests) a",
    tests: [long("costs/AcceptPlans")]
  },
  {
    rule: "a repeated batch reads only the operations of its keys",
    file: acceptances,
    from: "idempotency_key = r.key OFFSET 0",
    to: "idempotency_key = r.key",
    tests: [long("costs/AcceptPlans", "reads only the operations of its keys")]
  },
  {
    rule: "a disconnected provider takes no operation",
    file: acceptances,
    from: "WHERE s.standing = ${goodStanding} AND ${isSendable}",
    to: "WHERE s.standing IN (0, 16) AND ${isSendable}",
    tests: [
      postgres("services/ledger/Acceptance"),
      postgres("services/schema/Storage"),
      postgres("services/grants/Standing")
    ]
  },
  {
    rule: "a request binding is only for the same resource owner",
    file: acceptances,
    from: " AND o.provider_connection_id = g.provider_connection_id AS same_request",
    to: " AS same_request",
    tests: [postgres("services/ledger/Acceptance", "of another resource owner")]
  },
  {
    rule: "a request binding is only for the same provider connection",
    file: acceptances,
    from: " AND o.provider_connection_id = g.provider_connection_id AS same_request",
    to: " AND o.resource_owner = g.resource_owner AS same_request",
    tests: [postgres("services/ledger/Acceptance", "through another provider connection")]
  },
  {
    rule: "of the requests of a batch with one key, always the first one counts",
    file: acceptances,
    from: "ELSE r.key END COLLATE \"C\", r.position\n",
    to: "ELSE r.key END COLLATE \"C\", r.position DESC\n",
    tests: [postgres("services/ledger/AcceptAll")]
  },
  {
    rule: "concurrent requests with one key create one operation, which each of them gets",
    file: acceptances,
    from: "    ON CONFLICT (client_id, subject, idempotency_key) DO NOTHING\n",
    to: "",
    tests: [postgres("services/ledger/AcceptAllRaces", "create one operation for each key")]
  },
  {
    rule: "the scopes of a credential limit those of its grant",
    file: acceptances,
    from: "($4 = ANY (g.scopes) AND ($5::text[] IS NULL OR $4 = ANY ($5)))",
    to: "($4 = ANY (g.scopes))",
    tests: [postgres("services/ledger/Acceptance")]
  },
  {
    rule: "another request under a bound key is always refused",
    file: acceptances,
    from: "      earlier?.same_request === true",
    to: "      earlier !== undefined",
    tests: [postgres("services/ledger/Acceptance")]
  },
  {
    rule: "a repeated request of one batch gets the operation only if it is the same",
    file: acceptances,
    from: "same_request: digest === creator.digest",
    to: "same_request: true",
    tests: [postgres("services/ledger/AcceptAll")]
  },
  {
    rule: "a request before the first accepted one of its key never gets its operation",
    file: acceptances,
    from: "const creator = creators.get(key)",
    to: "const creator = batch.find((other) => other.request.key === key && created.has(other.id))",
    tests: [postgres("services/ledger/AcceptAll"), postgres("services/ledger/UnsendablePayloads")]
  },
  {
    rule: "a defect of one request never fails the others of its batch",
    file: acceptances,
    from: "Effect.catchDefect((defect) => Effect.succeed<Acceptance>(Exit.die(defect)))",
    to: "Effect.catchDefect((defect) => Effect.die(defect))",
    tests: [postgres("services/ledger/AcceptAll")]
  }
]

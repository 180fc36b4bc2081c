/** All planted mistakes, by subject. */
import type { Plant } from "./Plant.ts"
import { acceptance } from "./subjects/acceptance.ts"
import { approvals } from "./subjects/approvals.ts"
import { attacks } from "./subjects/attacks.ts"
import { banks } from "./subjects/banks.ts"
import { ciba } from "./subjects/ciba.ts"
import { claims } from "./subjects/claims.ts"
import { cluster } from "./subjects/cluster.ts"
import { comparison } from "./subjects/comparison.ts"
import { console } from "./subjects/console.ts"
import { feed } from "./subjects/feed.ts"
import { fences } from "./subjects/fences.ts"
import { grants } from "./subjects/grants.ts"
import { holds } from "./subjects/holds.ts"
import { limits } from "./subjects/limits.ts"
import { operators } from "./subjects/operators.ts"
import { outcomes } from "./subjects/outcomes.ts"
import { providers } from "./subjects/providers.ts"
import { reads } from "./subjects/reads.ts"
import { reversals } from "./subjects/reversals.ts"
import { tokens } from "./subjects/tokens.ts"
import { transitions } from "./subjects/transitions.ts"

/** The table of plants. */
export const subjects: Readonly<Record<string, ReadonlyArray<Plant>>> = {
  reads,
  acceptance,
  grants,
  transitions,
  claims,
  outcomes,
  fences,
  holds,
  feed,
  reversals,
  tokens,
  operators,
  console,
  limits,
  attacks,
  providers,
  approvals,
  ciba,
  banks,
  cluster,
  comparison
}

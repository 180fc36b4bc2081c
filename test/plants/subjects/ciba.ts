/** Mistakes in decisions by CIBA: an answer that the owner did not give counts. */
import { type Plant, system, unit } from "../Plant.ts"

const service = "src/ciba/CibaApprovals.ts"
const protocol = "src/ciba/BackchannelAuthentication.ts"
const forged = [system("ciba/CibaApprovals", "refuses forged answers")]
const notified = [system("ciba/CibaApprovals", "takes a notification")]

export const ciba: ReadonlyArray<Plant> = [
  {
    rule: "the person that the ID token proves decides, not the one who was asked",
    file: service,
    from: "approvals.decide(decisionBy(owner, \"approved\"))",
    to: "approvals.decide(decisionBy(approval.resource_owner, \"approved\"))",
    tests: forged
  },
  {
    rule: "an ID token needs a signature of the provider",
    file: protocol,
    from: "await oauth.validateApplicationLevelSignature(to, response, { ...options, [oauth.jwksCache]: keys })",
    to: "",
    tests: forged
  },
  {
    rule: "an ID token answers one question",
    file: protocol,
    from: "if (used.has(idToken))",
    to: "if (used.size < 0)",
    tests: forged
  },
  {
    rule: "an ID token is not older than its question",
    file: protocol,
    from: "claims.iat < askedAt - clockTolerance",
    to: "claims.iat < 0",
    tests: forged
  },
  {
    rule: "an ID token that names a question answers no other one",
    file: protocol,
    from: "request !== undefined && request !== authReqId",
    to: "request === \"\"",
    tests: forged
  },
  {
    rule: "an ID token names a demanded way to authenticate",
    file: protocol,
    from: "acrValues.length > 0 && !acrValues",
    to: "acrValues.length > 9 && !acrValues",
    tests: forged
  },
  {
    rule: "a refusal of the person denies",
    file: service,
    from: "approvals.decide(decisionBy(approval.resource_owner, \"denied\"))",
    to: "approvals.decide(decisionBy(approval.resource_owner, \"approved\"))",
    tests: [system("ciba/CibaApprovals", "denies as the owner")]
  },
  {
    rule: "the provider asks no longer than the approval waits",
    file: service,
    from: "requestedExpiry: left,",
    to: "requestedExpiry: left * 2,",
    tests: [system("ciba/CibaApprovals", "approves as the owner")]
  },
  {
    rule: "polls slow down when the provider says so",
    file: service,
    from: "interval += slowDown",
    to: "interval += 0",
    tests: [system("ciba/CibaApprovals", "polls no faster")]
  },
  {
    rule: "polls end once the approval is decided",
    file: service,
    from: "if (!(yield* isPending(id))) return",
    to: "if (notified !== null && !(yield* isPending(id))) return",
    tests: [system("ciba/CibaApprovals", "asks no longer once an operator has decided")]
  },
  {
    rule: "a question that awaits a notification ends once the approval is decided",
    file: service,
    from: "yield* Effect.timeoutOption(Queue.take(notified), lookEvery)",
    to: "Option.some(yield* Queue.take(notified))",
    tests: [system("ciba/CibaApprovals", "asks no longer once an operator has decided")]
  },
  {
    rule: "one question about an operation at a time",
    file: service,
    from: "if (Option.isSome(running)) return",
    to: "if (Option.isSome(running) && mode === \"ping\") return",
    tests: [system("ciba/CibaApprovals", "asks once at a time")]
  },
  {
    rule: "a notification needs the token of its question",
    file: service,
    from: "isSame(given, token))[0]",
    to: "given !== \"\" || token === \"\")[0]",
    tests: notified
  },
  {
    rule: "a notification names its question",
    file: service,
    from: "typeof authReqId !== \"string\" || !isSame(authReqId, subscribed.authReqId ?? authReqId)",
    to: "typeof authReqId !== \"string\"",
    tests: notified
  },
  {
    rule: "the person reads the whole amount, or is not asked",
    file: "src/ciba/CibaApprovals.ts",
    from: "room < shortestEnd + 2 ? null",
    to: "room < 0 ? null",
    tests: [unit("ciba/bindingMessage")]
  }
]

/** Mistakes in what follows from the promises of a bank, and in the bank to test against, whose record must be true. */
import { type Plant, system, unit } from "../Plant.ts"

const submissions = "src/sandbox/Submissions.ts"
const promises = "src/submission/providers/ProviderPromises.ts"
const http = "src/submission/http/HttpStatusReads.ts"
const promised = [unit("submission/providers/ProviderPromises")]

export const providers: ReadonlyArray<Plant> = [
  {
    rule: "a request to a provider follows no redirect",
    file: "src/http/OutgoingRequest.ts",
    from: "redirect: \"manual\", cache",
    to: "redirect: \"follow\", cache",
    tests: [system("testing/ProviderContract")]
  },
  {
    rule: "not found is never final at a bank that takes late requests",
    file: promises,
    from: " || lateRequests === \"accepted\" || send_before === null",
    to: " || send_before === null",
    tests: promised
  },
  {
    rule: "the instant that a bank states ends no operation before its send_before",
    file: promises,
    from: "DateTime.max(send_before, DateTime.addDuration(last, notFoundIsFinalAfter))",
    to: "DateTime.addDuration(last, notFoundIsFinalAfter)",
    tests: promised
  },
  {
    rule: "a bank that may have forgotten the key proves nothing by not found",
    file: promises,
    from: "return lifetime === null || DateTime.isLessThan(",
    to: "return lifetime === null || !DateTime.isLessThan(",
    tests: promised
  },
  {
    rule: "a bank that is read by its own reference alone is not asked without one",
    file: promises,
    from: "return readByOperationId === \"no\" ? \"none\" :",
    to: "return",
    tests: promised
  },
  {
    rule: "a status request without the reference of the bank asks for the operation by its id, or is not sent",
    file: http,
    from: "reference === null && readKind(promises, null) === \"direct\"",
    to: "reference !== null && readKind(promises, null) === \"direct\"",
    tests: [unit("submission/http/ReadsByReference", "proves nothing without the reference")]
  },
  {
    rule: "an adapter of a bank that is read by its own reference alone sends no status read without one",
    file: http,
    from: "if (readKind(options.promises, reference) === \"none\") {",
    to: "if (readKind(options.promises, reference) === \"none\" && operation.send_before !== null) {",
    tests: [unit("submission/http/ReadsByReference", "proves nothing without the reference")]
  },
  {
    rule: "a bank without a read by the operation's id gets no probe",
    file: "src/submission/http/HttpProvider.ts",
    from: "options.probe !== false && readKind(options.promises, null) === \"direct\"",
    to: "options.probe !== false",
    tests: [unit("submission/http/HttpProviderAnswers", "is none without a read")]
  },
  {
    rule: "a status request by an empty reference asks for no operation, though its key or its query has the id",
    file: promises,
    from: "  if (missingInPath.test(looksForId ? path.replace(trailingSlash, \"\") : path)) return false\n",
    to: "",
    tests: [unit("submission/http/ReadsByReference", "asks for the operation")]
  },
  {
    rule: "a slash at the end of the path is no place of the reference if the query alone has the id",
    file: promises,
    from: "looksForId ? path.replace(trailingSlash, \"\") : path",
    to: "path",
    tests: [
      unit("submission/http/ReadsByReference", "asks for the operation"),
      unit("submission/http/ReadsByReference", "lets an adapter start")
    ]
  },
  {
    rule: "a query that has the id by reference too only traces the request",
    file: promises,
    from: " && isIn(splitTarget(byReference.path)[1])",
    to: " && isIn(\"\")",
    tests: [
      unit("submission/http/ReadsByReference", "asks for the operation"),
      unit("submission/http/ReadsByReference", "lets an adapter start")
    ]
  },
  {
    rule: "a status request by an empty value of the query asks for no operation, though its key is the id",
    file: promises,
    from: "!missingInQuery.test(query) && (",
    to: "(",
    tests: [unit("submission/http/ReadsByReference", "asks for the operation")]
  },
  {
    rule: "the id in the query counts beside another value that is null",
    file: promises,
    from: "return isIn(query) || !missingInQuery.test(query) && (",
    to: "return !missingInQuery.test(query) && (isIn(query) || ",
    tests: [unit("submission/http/ReadsByReference", "the id in the query, beside null")]
  },
  {
    rule: "a header for tracing that has the id asks for no operation",
    file: http,
    from: "other.toLowerCase() === name)",
    to: "other.toLowerCase() !== name)",
    tests: [unit("submission/http/ReadsByReference", "lets an adapter start")]
  },
  {
    rule: "an adapter whose status request does not contain the operation's id does not start",
    file: "src/submission/http/HttpProvider.ts",
    from: "    checkStatusRequests(adapter)\n",
    to: "",
    tests: [unit("submission/http/ReadsByReference", "lets an adapter start")]
  },
  {
    rule: "the conformance kit takes no header for tracing for the idempotency key",
    file: "src/testing/contractRules.ts",
    from: "return keyOf?.(request) ?? \"\"",
    to: "return Object.values(request.headers).join()",
    tests: [unit("testing/ContractMistakes", "that is zero")]
  },
  {
    rule: "the conformance kit finds a status request without a reference that does not ask for its operation",
    file: "src/testing/contractRules.ts",
    from: "asksFor(id, { ...request, key: keyIn(request, keyOf), byReference })",
    to: "id !== \"\" && request !== undefined",
    tests: [unit("testing/ContractMistakes", "by the reference alone")]
  },
  {
    rule: "the conformance kit finds status requests that ask for the same operation",
    file: "src/testing/contractRules.ts",
    from: "ids.every((id) => requests.slice(0, -1)",
    to: "ids.some((id) => requests.slice(0, -1)",
    tests: [unit("testing/ContractMistakes", "of one operation for all")]
  },
  {
    rule: "a person is asked once no later not found proves anything, and not before",
    file: promises,
    from: "addDuration(send_before, lagOf(promises)))) return false",
    to: "addDuration(send_before, lagOf(promises)))) return true",
    tests: promised
  },
  {
    rule: "a bank that may have forgotten the key is asked by a person",
    file: promises,
    from: "if (due.acknowledged || !knowsKey(promises, due)) return true",
    to: "if (due.acknowledged) return true",
    tests: promised
  },
  {
    rule: "an indirect read proves nothing without the reference of the bank",
    file: "src/submission/reads/decideAfterRead.ts",
    from: "if (isIndirect && reference === null) return",
    to: "if (isIndirect && reference !== null) return",
    tests: promised
  },
  {
    rule: "unsafe promises do not start",
    file: "src/submission/providers/Providers.ts",
    from: "    checkPromises(promises, adapter)\n",
    to: "",
    tests: [unit("submission/providers/Providers")]
  },
  {
    rule: "final \"not found\" of reads by the key needs the account that is asked",
    file: "src/submission/providers/ProviderPromises.ts",
    from: "isFinal(promises) && promises.readByOperationId !== \"indirectly\" && namesNoAccount(declared)",
    to: "isFinal(promises) && promises.readByOperationId === \"indirectly\" && namesNoAccount(declared)",
    tests: [unit("submission/providers/ProviderPromises", "without an account")]
  },
  {
    rule: "a fence needs the account at which it occupies the key",
    file: "src/submission/providers/ProviderPromises.ts",
    from: "(_, declared) => declared.fence !== undefined && namesNoAccount",
    to: "(_, declared) => declared.fence === undefined && namesNoAccount",
    tests: [unit("submission/providers/ProviderPromises", "without an account")]
  },
  {
    rule: "a list with more pages than a status read visits proves nothing",
    file: http,
    from: "    if (status._tag !== \"ReadOn\") return status\n    next = status\n  }\n  return StatusAnswer.NotProven(",
    to:
      "    if (status._tag !== \"ReadOn\") return status\n    next = status\n  }\n  return StatusAnswer.NotFound({ names: namesNothing, evidence: {} }) ?? StatusAnswer.NotProven(",
    tests: [unit("submission/http/HttpProviderAnswers")]
  },
  {
    rule: "a setting of an adapter that is missing is named as not set",
    file: "src/node/process/failureLine.ts",
    from: "&& SchemaAST.isString(issue.ast)",
    to: "&& SchemaAST.isNever(issue.ast)",
    tests: [unit("node/process/failureLine")]
  },
  {
    rule: "a status read that compares what the bank echoes has the payload",
    file: promises,
    from: "readsNeedPayload || readKind",
    to: "readKind",
    tests: promised
  },
  {
    rule: "the kit tests the answers to a read by the operation's id, if they have another form",
    file: "src/testing/statusCases.ts",
    from: "if (statusByOperationId !== null) {",
    to: "if (statusByOperationId === undefined) {",
    tests: [unit("testing/TwoForms", "finds nothing in the list")]
  },
  {
    rule: "an adapter that promises a read by the operation's id must find the operation by it",
    file: "src/testing/statusCases.ts",
    from: "said._tag === \"Proven\"\n    ? null\n    : \"The adapter promises",
    to: "said._tag !== \"Rejected\"\n    ? null\n    : \"The adapter promises",
    tests: [unit("testing/TwoForms", "has a list that no answer of the bank declares")]
  },
  {
    rule: "an adapter that searches a list must find the operation at each place of it",
    file: "src/testing/statusCases.ts",
    from: "[...other, ...own, ...other]",
    to: "[...own, ...other]",
    tests: [unit("testing/TwoForms", "looks at the newest transfer alone")]
  },
  {
    rule: "an adapter that searches a list must read its next page",
    file: "src/testing/statusCases.ts",
    from: "const isFirst = asked === first",
    to: "const isFirst = first === undefined",
    tests: [unit("testing/TwoForms", "reads one page")]
  },
  {
    rule: "the kit asks for a page that is not the last one of a list",
    file: "src/testing/ProviderContract.ts",
    from: "status.pageBefore === undefined",
    to: "status.pageBefore === null",
    tests: [unit("testing/TwoForms", "asks for a page that is not the last one")]
  },
  {
    rule: "a form reaches the bank as a form, and its signature is of these bytes",
    file: "src/submission/http/HttpRequest.ts",
    from: "submission.body instanceof RedactedBody ? submission.body : RedactedBody",
    to: "RedactedBody",
    tests: [unit("submission/http/HttpProvider", "may be a form")]
  },
  {
    rule: "not found of a resource that an answer named says nothing of the operation",
    file: http,
    from: "isList ? status : StatusAnswer.NotFound({ ...status, evidence: null })",
    to: "status",
    tests: [unit("submission/http/HttpProviderAnswers")]
  },
  {
    rule: "an order that ended with a part filled is not recorded as failed",
    file: "src/banks/Alpaca.ts",
    from: "[...earlier, order].some(isFilled)",
    to: "[...earlier, order].some(({ status }) => status === \"filled\")",
    tests: [unit("banks/Alpaca", "in both kinds of answers")]
  },
  {
    rule: "the sandbox carries out a key once, and answers its repetition with the first answer",
    file: submissions,
    from: "if (entry.fate === undefined) {\n    entry.fate = chooseFate",
    to: "if (entry.fate === undefined || entry.fate.outcome === \"accepted\") {\n    entry.fate = chooseFate",
    tests: [unit("sandbox/Dialect"), unit("sandbox/Record")]
  },
  {
    rule: "the sandbox carries out no request that arrives after Send-Before",
    file: submissions,
    from: "if (effectiveAt > sendBefore) return",
    to: "if (effectiveAt > sendBefore + 60_000) return",
    tests: [unit("sandbox/Faults"), unit("sandbox/SandboxOutcome")]
  },
  {
    rule: "the sandbox carries out nothing while it refuses the credentials",
    file: "src/sandbox/BankRequests.ts",
    from: "if (refusal !== null) return yield*",
    to: "if (refusal !== null && demand._tag !== \"Submit\") return yield*",
    tests: [unit("sandbox/Faults")]
  },
  {
    rule: "a restarted sandbox finds a submission by its reference",
    file: "src/sandbox/SubmissionEntries.ts",
    from: "if (entry.fate !== undefined) hasRecorded(entries, receipt.key, entry)",
    to: "entry.recorded = entry.fate !== undefined",
    tests: [unit("sandbox/Dialect")]
  },
  {
    rule: "a reversal is promised for no type that the adapter cannot send",
    file: "src/submission/providers/Providers.ts",
    from: "payloads !== undefined && !Object",
    to: "payloads === null && !Object",
    tests: [unit("submission/providers/Providers", "promise reversals of types")]
  },
  {
    rule: "an answer about another order than the one that replaced it proves nothing",
    file: "src/submission/http/OrderAnswers.ts",
    from: "names(order, answer).reference === reference",
    to: "names(order, answer).reference !== undefined",
    tests: [unit("submission/http/OrderAnswers")]
  },
  {
    rule: "a list with two orders of one key proves nothing",
    file: "src/submission/http/OrderAnswers.ts",
    from: "[member]: Schema.Tuple([Schema.Json])",
    to: "[member]: Schema.NonEmptyArray(Schema.Json)",
    tests: [unit("submission/http/OrderAnswers")]
  }
]

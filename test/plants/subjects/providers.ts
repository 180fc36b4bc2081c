/** Mistakes in what follows from the promises of a bank, and in the bank to test against, whose record must be true. */
import { type Plant, plant, system, unit } from "../Plant.ts"

const contractRules = "src/testing/contractRules.ts"
const httpProvider = "src/submission/http/HttpProvider.ts"
const httpRequest = "src/submission/http/HttpRequest.ts"
const orderAnswers = "src/submission/http/OrderAnswers.ts"
const sandboxProvider = "src/submission/http/SandboxProvider.ts"
const statusCases = "src/testing/statusCases.ts"
const submissions = "src/sandbox/Submissions.ts"
const promises = "src/submission/providers/ProviderPromises.ts"
const http = "src/submission/http/HttpStatusReads.ts"
const promised = [unit("submission/providers/ProviderPromises")]

export const providers: ReadonlyArray<Plant> = [
  plant("a submission that the sandbox found too late ends the operation", sandboxProvider)
    .edit("refusal(problem(\"too_late\"))", "HttpProvider.uncertain(problem(\"too_late\"), () => \"late\")")
    .foundBy(unit("submission/http/SandboxProvider", "409 too_late is evidence")),
  plant("a submission that the sandbox turned away for now was not sent", sandboxProvider)
    .edit("  429: turnedAway,\n  409:", "  409:")
    .foundBy(unit("submission/http/SandboxProvider", "429 too_many_requests is a refusal for now")),
  plant("operations wait while the sandbox refuses the credentials", sandboxProvider)
    .edit("HttpProvider.wrongCredentials(answer)", "HttpProvider.refusedForNow(answer)")
    .foundBy(unit("submission/http/SandboxProvider", "401 unauthorized waits for another key")),
  plant("the sandbox learns until when it may carry a submission out", sandboxProvider)
    .edit("lateRequests: { header: sendBeforeHeader }", "lateRequests: \"refused\"")
    .foundBy({
      ...system("testing/ProviderContract", "the bank gets exactly the expected request"),
      titles: "src/testing/submissionCases.ts"
    }),
  plant("a status read takes no answer from a cache", httpRequest)
    .edit("{ \"cache-control\": \"no-cache\" }", "{ \"cache-control\": \"max-age=60\" }")
    .foundBy(unit("submission/http/HttpProvider", "asks caches for the present state")),
  plant("a request to a provider follows no redirect", "src/http/OutgoingRequest.ts")
    .edit("redirect: \"manual\", cache", "redirect: \"follow\", cache")
    .foundBy(system("testing/ProviderContract")),
  plant("not found is never final at a bank that takes late requests", promises)
    .edit(" || lateRequests === \"accepted\" || send_before === null", " || send_before === null")
    .foundBy(...promised),
  plant("the instant that a bank states ends no operation before its send_before", promises)
    .edit(
      "DateTime.max(send_before, DateTime.addDuration(last, notFoundIsFinalAfter))",
      "DateTime.addDuration(last, notFoundIsFinalAfter)"
    )
    .foundBy(...promised),
  plant("a bank that may have forgotten the key proves nothing by not found", promises)
    .edit(
      "return DateTime.isLessThan(taken_at, DateTime.addDuration(earliest",
      "return !DateTime.isLessThan(taken_at, DateTime.addDuration(earliest"
    )
    .foundBy(...promised),
  plant("a bank may have forgotten the key if the clock of the database was ahead at the acceptance", promises)
    .edit("DateTime.min(created_at, DateTime.subtractDuration(send_before, longestSendWithin))", "created_at")
    .foundBy(...promised),
  plant("a bank may have forgotten the key that was sent long before send_before", promises)
    .edit(
      "DateTime.min(created_at, DateTime.subtractDuration(send_before, longestSendWithin))",
      "DateTime.subtractDuration(send_before, longestSendWithin)"
    )
    .foundBy(...promised),
  plant("a bank may have forgotten the key by either clock", promises)
    .edit("DateTime.max(due.taken_at, DateTime.makeUnsafe(due.askedAt.wall))", "due.taken_at")
    .foundBy(...promised),
  plant("a bank that is read by its own reference alone is not asked without one", promises)
    .edit("return readByOperationId === \"no\" ? \"none\" :", "return")
    .foundBy(...promised),
  plant("a status request without the reference of the bank asks for the operation by its id, or is not sent", http)
    .edit(
      "reference === null && readKind(promises, null) === \"direct\"",
      "reference !== null && readKind(promises, null) === \"direct\""
    )
    .foundBy(unit("submission/http/ReadsByReference", "proves nothing without the reference")),
  plant("an adapter of a bank that is read by its own reference alone sends no status read without one", http)
    .edit(
      "if (readKind(options.promises, reference) === \"none\") {",
      "if (readKind(options.promises, reference) === \"none\" && operation.send_before !== null) {"
    )
    .foundBy(unit("submission/http/ReadsByReference", "proves nothing without the reference")),
  plant("a bank without a read by the operation's id gets no probe", httpProvider)
    .edit("options.probe !== false && readKind(options.promises, null) === \"direct\"", "options.probe !== false")
    .foundBy(unit("submission/http/HttpProviderAnswers", "is none without a read")),
  plant(
    "a status request by an empty reference asks for no operation, though its key or its query has the id",
    promises
  )
    .edit("  if (missingInPath.test(looksForId ? path.replace(trailingSlash, \"\") : path)) return false\n", "")
    .foundBy(unit("submission/http/ReadsByReference", "asks for the operation")),
  plant("a slash at the end of the path is no place of the reference if the query alone has the id", promises)
    .edit("looksForId ? path.replace(trailingSlash, \"\") : path", "path")
    .foundBy(
      unit("submission/http/ReadsByReference", "asks for the operation"),
      unit("submission/http/ReadsByReference", "lets an adapter start")
    ),
  plant("a query that has the id by reference too only traces the request", promises)
    .edit(" && isIn(splitTarget(byReference.path)[1])", " && isIn(\"\")")
    .foundBy(
      unit("submission/http/ReadsByReference", "asks for the operation"),
      unit("submission/http/ReadsByReference", "lets an adapter start")
    ),
  plant("a status request by an empty value of the query asks for no operation, though its key is the id", promises)
    .edit("!missingInQuery.test(query) && (", "(")
    .foundBy(unit("submission/http/ReadsByReference", "asks for the operation")),
  plant("the id in the query counts beside another value that is null", promises)
    .edit(
      "return isIn(query) || !missingInQuery.test(query) && (",
      "return !missingInQuery.test(query) && (isIn(query) || "
    )
    .foundBy(unit("submission/http/ReadsByReference", "the id in the query, beside null")),
  plant("a header for tracing that has the id asks for no operation", http)
    .edit("other.toLowerCase() === name)", "other.toLowerCase() !== name)")
    .foundBy(unit("submission/http/ReadsByReference", "lets an adapter start")),
  plant("an adapter whose status request does not contain the operation's id does not start", httpProvider)
    .edit("    checkStatusRequests(adapter)\n", "")
    .foundBy(unit("submission/http/ReadsByReference", "lets an adapter start")),
  plant("the conformance kit takes no header for tracing for the idempotency key", contractRules)
    .edit("return keyOf?.(request) ?? \"\"", "return Object.values(request.headers).join()")
    .foundBy(unit("testing/ContractMistakes", "that is zero")),
  plant(
    "the conformance kit finds a status request without a reference that does not ask for its operation",
    contractRules
  )
    .edit(
      "asksFor(id, { ...request, key: keyIn(request, keyOf), byReference })",
      "id !== \"\" && request !== undefined"
    )
    .foundBy(unit("testing/ContractMistakes", "by the reference alone")),
  plant("the conformance kit finds status requests that ask for the same operation", contractRules)
    .edit("ids.every((id) => requests.slice(0, -1)", "ids.some((id) => requests.slice(0, -1)")
    .foundBy(unit("testing/ContractMistakes", "of one operation for all")),
  plant("a person is asked once no later not found proves anything, and not before", promises)
    .edit(
      "addDuration(send_before, lagOf(promises)))) return false",
      "addDuration(send_before, lagOf(promises)))) return true"
    )
    .foundBy(...promised),
  plant("a bank that may have forgotten the key is asked by a person", promises)
    .edit("|| !knowsKey(promises, due)) return true", ") return true")
    .foundBy(...promised),
  plant("an indirect read proves nothing without the reference of the bank", "src/submission/reads/decideAfterRead.ts")
    .edit(
      "    && !isProviderReference(answer.names.reference)\n",
      "    && isProviderReference(answer.names.reference)\n"
    )
    .foundBy(...promised),
  plant("unsafe promises do not start", "src/submission/providers/Providers.ts")
    .edit("    checkPromises(promises, adapter)\n", "")
    .foundBy(unit("submission/providers/Providers")),
  plant("final \"not found\" of reads by the key needs the account that is asked", promises)
    .edit(
      "isFinal(promises) && promises.readByOperationId !== \"indirectly\" && namesNoAccount(declared)",
      "isFinal(promises) && promises.readByOperationId === \"indirectly\" && namesNoAccount(declared)"
    )
    .foundBy(unit("submission/providers/ProviderPromises", "without an account")),
  plant("a fence needs the account at which it occupies the key", promises)
    .edit(
      "(_, declared) => declared.fence !== undefined && namesNoAccount",
      "(_, declared) => declared.fence === undefined && namesNoAccount"
    )
    .foundBy(unit("submission/providers/ProviderPromises", "without an account")),
  plant("a list with more pages than a status read visits proves nothing", http)
    .edit(
      "    if (status._tag !== \"ReadOn\") return status\n    next = status\n  }\n  return StatusAnswer.NotProven(",
      "    if (status._tag !== \"ReadOn\") return status\n    next = status\n  }\n  return StatusAnswer.NotFound({ names: namesNothing, evidence: {} }) ?? StatusAnswer.NotProven("
    )
    .foundBy(unit("submission/http/HttpProviderAnswers")),
  plant("a setting of an adapter that is missing is named as not set", "src/node/process/failureLine.ts")
    .edit("&& SchemaAST.isString(issue.ast)", "&& SchemaAST.isNever(issue.ast)")
    .foundBy(unit("node/process/failureLine")),
  plant("a status read that compares what the bank echoes has the payload", promises)
    .edit("readsNeedPayload || readKind", "readKind")
    .foundBy(...promised),
  plant("the kit tests the answers to a read by the operation's id, if they have another form", statusCases)
    .edit("if (statusByOperationId !== null) {", "if (statusByOperationId === undefined) {")
    .foundBy(unit("testing/TwoForms", "finds nothing in the list")),
  plant("an adapter that promises a read by the operation's id must find the operation by it", statusCases)
    .edit(
      "said._tag === \"Proven\"\n    ? null\n    : \"The adapter promises",
      "said._tag !== \"Rejected\"\n    ? null\n    : \"The adapter promises"
    )
    .foundBy(unit("testing/TwoForms", "has a list that no answer of the bank declares")),
  plant("an adapter that searches a list must find the operation at each place of it", statusCases)
    .edit("[...other, ...own, ...other]", "[...own, ...other]")
    .foundBy(unit("testing/TwoForms", "looks at the newest transfer alone")),
  plant("an adapter that searches a list must read its next page", statusCases)
    .edit("const isFirst = asked === first", "const isFirst = first === undefined")
    .foundBy(unit("testing/TwoForms", "reads one page")),
  plant("the kit asks for a page that is not the last one of a list", "src/testing/ProviderContract.ts")
    .edit("status.pageBefore === undefined", "status.pageBefore === null")
    .foundBy(unit("testing/TwoForms", "asks for a page that is not the last one")),
  plant("a form reaches the bank as a form, and its signature is of these bytes", httpRequest)
    .edit("submission.body instanceof RedactedBody ? submission.body : RedactedBody", "RedactedBody")
    .foundBy(unit("submission/http/HttpProvider", "may be a form")),
  plant("no id of a provider leads a request to another resource", httpRequest)
    .edit("(?:\\.|%2e){1,2}(?=", "(?:\\.|%2e){2}(?=")
    .foundBy(
      unit("submission/http/HttpProviderRefusals", "nothing was sent, and the error"),
      unit("banks/FenceAnswers", "cancels nothing")
    ),
  plant("a value in a path leads nowhere else at a server that reads an escaped slash", httpRequest)
    .edit("(?:\\/|%2f|%5c)(?:", "(?:\\/)(?:")
    .foundBy(unit("submission/http/HttpProviderRefusals", "nothing was sent, and the error")),
  plant("not found of a resource that an answer named says nothing of the operation", http)
    .edit("isList ? status : StatusAnswer.NotFound({ ...status, evidence: null })", "status")
    .foundBy(unit("submission/http/HttpProviderAnswers")),
  plant("an order that ended with a part filled is not recorded as failed", "src/banks/Alpaca.ts")
    .edit("[...earlier, order].some(isFilled)", "[...earlier, order].some(({ status }) => status === \"filled\")")
    .foundBy(unit("banks/Alpaca", "in both kinds of answers")),
  plant("the sandbox carries out a key once, and answers its repetition with the first answer", submissions)
    .edit(
      "if (entry.fate === undefined) {\n      entry.fate = chooseFate",
      "if (entry.fate === undefined || entry.fate.outcome === \"accepted\") {\n      entry.fate = chooseFate"
    )
    .foundBy(unit("sandbox/Dialect"), unit("sandbox/Record")),
  plant("the sandbox carries out no request that arrives after Send-Before", submissions)
    .edit("if (effectiveAt > sendBefore) return", "if (effectiveAt > sendBefore + 60_000) return")
    .foundBy(unit("sandbox/Faults"), unit("sandbox/SandboxOutcome")),
  plant("the sandbox carries out nothing while it refuses the credentials", "src/sandbox/BankRequests.ts")
    .edit("if (refusal !== null) return yield*", "if (refusal !== null && demand._tag !== \"Submit\") return yield*")
    .foundBy(unit("sandbox/Faults")),
  plant("a restarted sandbox finds a submission by its reference", "src/sandbox/SubmissionEntries.ts")
    .edit(
      "if (entry.fate !== undefined) hasRecorded(entries, receipt.key, entry)",
      "entry.recorded = entry.fate !== undefined"
    )
    .foundBy(unit("sandbox/Dialect")),
  plant("a reversal is promised for no type that the adapter cannot send", "src/submission/providers/Providers.ts")
    .edit("payloads !== undefined && !Object", "payloads === null && !Object")
    .foundBy(unit("submission/providers/Providers", "promise reversals of types")),
  plant("an answer about another order than the one that replaced it proves nothing", orderAnswers)
    .edit("names(order, answer).reference === reference", "names(order, answer).reference !== undefined")
    .foundBy(unit("submission/http/OrderAnswers")),
  plant("a list with two orders of one key proves nothing", orderAnswers)
    .edit("[member]: Schema.Tuple([Schema.Json])", "[member]: Schema.NonEmptyArray(Schema.Json)")
    .foundBy(unit("submission/http/OrderAnswers")),
  plant("an answer is bounded also where its encoding hides its length", "src/submission/http/HttpExchange.ts")
    .edit(" && headers[\"content-encoding\"] === undefined\n", "\n")
    .foundBy(unit("submission/http/HttpExchange", "hides its length")),
  plant("the sandbox repeats a webhook until a 2xx", "src/sandbox/Webhooks.ts")
    .edit("status < 200 || status >= 300", "status < 200 || status >= 400")
    .foundBy(unit("sandbox/Webhooks", "are tried five times")),
  plant("the sandbox follows no link in the place of its record", "src/sandbox/Record.ts")
    .edit("constants.O_CREAT | constants.O_NOFOLLOW", "constants.O_CREAT")
    .foundBy(unit("sandbox/Record", "is no link")),
  plant("no provider extends the life of an idle connection", "src/node/http/ProviderHttpClient.ts")
    .edit("keepAliveMaxTimeout: keepAlive,", "keepAliveMaxTimeout: 600_000,")
    .foundBy(unit("node/http/ProviderHttpClient", "stays open no longer"))
]

import type { OperatorPage, Overview } from "../../src/operator/console/ConsoleApi.ts"
import { useAnnouncedChange } from "../data/announcements.ts"
import { formatCount, formatOperations } from "../data/format.ts"
import { useResource } from "../data/resource.ts"
import { to } from "../data/route.ts"
import { openClaims, useSubmitting } from "../overview/openClaims.ts"
import { Empty } from "../parts/Empty.tsx"
import { Loaded } from "../parts/Loaded.tsx"
import { OperationsTable } from "../parts/OperationsTable.tsx"
import { Time } from "../parts/Time.tsx"
import { QueueFilters } from "./QueueFilters.tsx"
import { type Queue, queues } from "./queues.ts"
import { usePageTitle } from "./usePageTitle.ts"

const filterNames = ["provider", "client_id", "resource_owner", "state", "failure_code", "claimed_by"] as const
const queryNames = [...filterNames, "order"] as const

const pathOf = (name: string, query: URLSearchParams): string => {
  const sent = new URLSearchParams(name === "all" ? {} : { queue: name })
  for (const member of [...queryNames, "after"]) {
    const value = query.get(member)
    if (value === null) continue
    for (const one of member === "state" ? value.split(",") : [value]) sent.append(member, one)
  }
  return `/operations?${sent}`
}

const Tabs = ({ current, figures, waiting }: {
  readonly current: string
  readonly figures: Overview | undefined
  /** The first page of the queue `waiting`, which the figures do not count. */
  readonly waiting: OperatorPage | undefined
}) => {
  const countOf = ({ count, name }: Queue): string | undefined =>
    name === "waiting"
      ? waiting && `${waiting.operations.length}${waiting.next === null ? "" : "+"}`
      : figures && count && formatCount(count(figures, name))
  return (
    <nav class="tabs" aria-label="Queues">
      {queues.map((queue) => (
        <a
          key={queue.name}
          href={to(["queues", queue.name])}
          aria-current={queue.name === current ? "page" : undefined}
        >
          {queue.title}
          {countOf(queue) !== undefined && <span class="count">{countOf(queue)}</span>}
        </a>
      ))}
    </nav>
  )
}

/** The address of this queue with the given members of the query changed. */
const addressOf = (
  name: string,
  query: URLSearchParams,
  change: Readonly<Record<string, string | undefined>>
): string =>
  to(["queues", name], {
    ...Object.fromEntries(queryNames.map((member) => [member, query.get(member) ?? undefined])),
    ...change
  })

/** How many operations are submitting, and when the last of those of a worker that has ended comes to the queue. */
const Submitting = () => {
  const page = useSubmitting()
  const claims = page && openClaims(page)
  return claims && (
    <>
      {" "}
      {claims.count} submitting: those of a worker that has ended come here{claims.at !== null && (
        <>
          {" "}
          <Time at={claims.at} />
        </>
      )}.
    </>
  )
}

/** The failures of the last 24 hours by provider and code, each of which leads to its operations. */
const Failures = ({ failed }: Overview) => (
  <div class="badges">
    {failed.map(({ code, count, provider, unsent }) => (
      <a key={provider + code} class="badge" href={to(["queues", "failed"], { provider, failure_code: code })}>
        {provider} <code>{code}</code> {formatCount(count)}
        {unsent && <b>unsent</b>}
      </a>
    ))}
  </div>
)

const Listing = ({ page, query, queue }: {
  readonly queue: Queue
  readonly page: OperatorPage
  readonly query: URLSearchParams
}) => {
  const { next, operations } = page
  const filtered = filterNames.some((name) => query.has(name))
  const followed = query.has("after")
  return (
    <>
      {operations.length > 0 && <OperationsTable caption={queue.title} operations={operations} />}
      {operations.length === 0 && next === null && !followed && (filtered
        ? <Empty title="No operation matches" kind="missing">No operation of this queue has all of these values.</Empty>
        : (
          <Empty title="Nothing here">
            {queue.empty}
            {queue.name === "indeterminate" && <Submitting />}
          </Empty>
        ))}
      {operations.length === 0 && (next !== null || followed) && (
        <p class="secondary">This page has no matching operation{next === null ? "." : ", and more follow."}</p>
      )}
      {(next !== null || followed) && (
        <nav class="paging" aria-label="Pages of the list">
          {followed && <a class="button" href={addressOf(queue.name, query, {})}>First page</a>}
          {next !== null && <a class="button" href={addressOf(queue.name, query, { after: next })}>Next page</a>}
        </nav>
      )}
    </>
  )
}

/** A queue of operations that need attention, or all operations. */
export const QueuesPage = ({ name, query }: { readonly name: string; readonly query: URLSearchParams }) => {
  const queue = queues.find((known) => known.name === name)!
  usePageTitle(queue.title)
  const figures = useResource<Overview>("/overview?hours=1", { gap: 2000 }).data
  const waiting = useResource<OperatorPage>("/operations?queue=waiting", { gap: 2000 }).data
  const page = useResource<OperatorPage>(pathOf(name, query), { gap: 1000 })
  useAnnouncedChange(page.data?.operations.length, (length) => `The list shows ${formatOperations(length)}.`)
  const providers = [...new Set(figures?.operations.map(({ provider }) => provider))].sort()
  const codes = [...new Set(figures?.failed.map(({ code }) => code))].sort()
  return (
    <div class="page">
      <div class="page-head">
        <h1>Queues</h1>
        <span class="secondary">Operations may be in several.</span>
      </div>
      <Tabs current={name} figures={figures} waiting={waiting} />
      <div class="queue-head">
        <p>{queue.meaning}</p>
        <QueueFilters key={name} name={name} providers={providers} codes={codes} query={query} address={addressOf} />
      </div>
      {name === "failed" && figures && <Failures {...figures} />}
      <Loaded resource={page}>{(data) => <Listing queue={queue} page={data} query={query} />}</Loaded>
    </div>
  )
}

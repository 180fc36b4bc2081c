import { useEffect, useState } from "preact/hooks"
import type { OperatorPage, Summary } from "../../src/operator/console/ConsoleApi.ts"
import { formatOperations } from "../data/format.ts"
import { type Resource, useResource } from "../data/resource.ts"
import { navigate, to } from "../data/route.ts"
import { findPayee, session } from "../data/session.ts"
import { useStore } from "../data/store.ts"
import { Empty } from "../parts/Empty.tsx"
import { Loaded } from "../parts/Loaded.tsx"
import { OperationsTable } from "../parts/OperationsTable.tsx"
import { keepTerms } from "../parts/Terms.tsx"
import { usePageTitle } from "./usePageTitle.ts"

interface Found {
  readonly operations: ReadonlyArray<Summary>
}

/** An id of a client or an owner (`domain/Grant`). */
const isParty = /^[\x21-\x7e]{1,255}$/

/** Characters of the longest payee (`domain/Terms`). */
const longestPayee = 255

/** The operations of a client, an owner or a payee, if there are some: the first page, and a link to the others. */
const Party = ({ member, name, page: { next, operations }, text }: {
  readonly member?: "client_id" | "resource_owner"
  readonly name: string
  readonly page: OperatorPage
  readonly text: string
}) =>
  operations.length === 0 ? null : (
    <section class="party">
      <p class="secondary">
        {name}: {next === null ? formatOperations(operations.length) : "the latest operations"}. {member === undefined
          ? "It is recorded that you see their terms."
          : <a href={to(["queues", "all"], { [member]: text })}>Show them in the queues</a>}
      </p>
      <OperationsTable caption={name} operations={operations} />
    </section>
  )

const useParty = (member: string, text: string): Resource<OperatorPage> => {
  const path = `/operations?${new URLSearchParams({ [member]: text })}`
  return useResource<OperatorPage>(path, { gap: 2000 })
}

/** Asks once, and not again after a change: the server records who sees the terms. */
const usePayee = (payee: string): Resource<OperatorPage> => {
  const isSignedIn = useStore(session, (session) => session !== null)
  const [shown, show] = useState<Pick<Resource<OperatorPage>, "data" | "error">>({ data: undefined, error: undefined })
  const reload = () => {
    if (!isSignedIn) return
    findPayee(payee).then(
      (data) => {
        keepTerms({
          digests: {},
          terms: Object.fromEntries(
            data.operations.flatMap(({ operation, terms }) => terms === null ? [] : [[operation.id, terms]])
          )
        })
        show({ data, error: undefined })
      },
      (error: Error) => show({ data: undefined, error })
    )
  }
  useEffect(reload, [payee, isSignedIn])
  return { ...shown, stale: false, reload }
}

const Payee = ({ alone, text }: { readonly alone: boolean; readonly text: string }) => (
  <Loaded resource={usePayee(text)}>
    {(page) =>
      alone && page.operations.length === 0 ? <NothingFound /> : <Party name="To the payee" page={page} text={text} />}
  </Loaded>
)

const Parties = ({ alone, text }: { readonly alone: boolean; readonly text: string }) => {
  const client = useParty("client_id", text)
  const owner = useParty("resource_owner", text)
  return (
    <Loaded resource={client}>
      {(ofClient) => (
        <Loaded resource={owner}>
          {(ofOwner) => (
            <>
              <Party member="client_id" name="Of the client" page={ofClient} text={text} />
              <Party member="resource_owner" name="Of the owner" page={ofOwner} text={text} />
              <Payee alone={alone && ofClient.operations.length + ofOwner.operations.length === 0} text={text} />
            </>
          )}
        </Loaded>
      )}
    </Loaded>
  )
}

const NothingFound = () => (
  <Empty title="Nothing found" kind="missing">
    No operation has exactly this as an id, key, reference, client, owner or payee. Enter the whole IBAN of an account.
  </Empty>
)

const Results = ({ text }: { readonly text: string }) => {
  const found = useResource<Found>(`/find?${new URLSearchParams({ text })}`, { gap: 2000 })
  const only = found.stale || found.data?.operations.length !== 1 ? undefined : found.data.operations[0]
  useEffect(() => {
    if (only !== undefined) navigate(to(["operations", only.operation.id]), { replace: true })
  }, [only])
  return (
    <Loaded resource={found}>
      {({ operations }) => (
        <>
          {operations.length > 0 && (
            <>
              <p class="secondary">{formatOperations(operations.length)}, the newest first.</p>
              <OperationsTable caption="Search results" operations={operations} />
            </>
          )}
          {isParty.test(text)
            ? <Parties alone={operations.length === 0} text={text} />
            : text.length <= longestPayee
            ? <Payee alone={operations.length === 0} text={text} />
            : operations.length === 0 && <NothingFound />}
        </>
      )}
    </Loaded>
  )
}

/** Operations by id, idempotency key, provider reference, client, owner or payee. A single match is shown at once. */
export const SearchPage = ({ text }: { readonly text: string }) => {
  usePageTitle("Search")
  return (
    <div class="page">
      <h1>
        Search{text !== "" && (
          <>
            : <code>{text}</code>
          </>
        )}
      </h1>
      {text === ""
        ? (
          <p>
            Enter an id, key, reference, client, owner or payee in the field above. The match is exact.
          </p>
        )
        : <Results key={text} text={text} />}
    </div>
  )
}

import { useEffect } from "preact/hooks"
import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { formatOperations } from "../data/format.ts"
import { useResource } from "../data/resource.ts"
import { navigate, to } from "../data/route.ts"
import { Empty } from "../parts/Empty.tsx"
import { Loaded } from "../parts/Loaded.tsx"
import { OperationsTable } from "../parts/OperationsTable.tsx"
import { usePageTitle } from "./usePageTitle.ts"

interface Found {
  readonly operations: ReadonlyArray<Summary>
}

const Results = ({ text }: { readonly text: string }) => {
  const found = useResource<Found>(`/find?${new URLSearchParams({ text })}`, { gap: 2000 })
  const only = found.stale || found.data?.operations.length !== 1 ? undefined : found.data.operations[0]
  useEffect(() => {
    if (only !== undefined) navigate(to(["operations", only.operation.id]), { replace: true })
  }, [only])
  return (
    <Loaded resource={found}>
      {({ operations }) =>
        operations.length === 0
          ? (
            <Empty title="Nothing found" kind="missing">
              No operation has exactly this id, idempotency key or provider reference. Parts of them do not match.
            </Empty>
          )
          : (
            <>
              <p class="secondary">{formatOperations(operations.length)}, the newest first.</p>
              <OperationsTable caption="Search results" operations={operations} />
            </>
          )}
    </Loaded>
  )
}

/** Operations by id, idempotency key or provider reference. A single match is shown at once. */
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
            Enter an operation id, an idempotency key or a provider reference in the field above. The match is exact.
          </p>
        )
        : <Results key={text} text={text} />}
    </div>
  )
}

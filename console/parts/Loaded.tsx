import type { ComponentChildren } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Resource } from "../data/resource.ts"
import { ReadFailure } from "./ReadFailure.tsx"

/** Stands for content that is being read. */
const Skeleton = () => (
  <div class="skeleton">
    <p class="visually-hidden" role="status">Loading</p>
    <div class="skeleton-line" />
    <div class="skeleton-block" />
    <div class="skeleton-block" />
  </div>
)

/** Milliseconds before the page says that it loads. Most reads are faster, and a skeleton would flicker. */
const patience = 200

const Waiting = () => {
  const [long, setLong] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), patience)
    return () => clearTimeout(timer)
  }, [])
  return long ? <Skeleton /> : null
}

/** Shows the data of a resource once it is there; until then a skeleton, and after a failed read the reason. */
export function Loaded<A>({ children, resource }: {
  readonly resource: Resource<A>
  readonly children: (data: A) => ComponentChildren
}) {
  const { data, error, reload, stale } = resource
  return (
    <>
      {error !== undefined && <ReadFailure error={error} hasData={data !== undefined} retry={reload} />}
      {data === undefined
        ? error === undefined && <Waiting />
        : <div class="loaded" aria-busy={stale}>{children(data)}</div>}
    </>
  )
}

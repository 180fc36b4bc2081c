import { formatDuration, formatInstant, formatRelative } from "../data/format.ts"
import { createStore, useStore } from "../data/store.ts"

/** Milliseconds since 1970, once a second. */
export const clock = createStore(Date.now())

setInterval(() => clock.set(Date.now()), 1000)

const epoch = (at: number | string): number => typeof at === "number" ? at : Date.parse(at)

/** An instant, relative to now. Its title is the absolute time in UTC. */
export const Time = ({ at }: { readonly at: number | string }) => {
  const text = useStore(clock, (now) => formatRelative(epoch(at), now))
  return <time dateTime={new Date(at).toISOString()} title={formatInstant(at)}>{text}</time>
}

/** How long ago an instant is, as a duration. */
export const Age = ({ since }: { readonly since: number | string }) => {
  const text = useStore(clock, (now) => formatDuration(Math.max(0, now - epoch(since))))
  return <time dateTime={new Date(since).toISOString()} title={`Since ${formatInstant(since)}`}>{text}</time>
}

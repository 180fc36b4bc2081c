/** What a component shows of the API. It is read again when operations changed. */
import { useEffect, useRef, useState } from "preact/hooks"
import type { ConsoleChanges } from "../../src/operator/console/ConsoleApi.ts"
import { onChanges } from "./live.ts"
import { request, unattended } from "./request.ts"

export interface Resource<A> {
  /** Undefined: nothing was read yet. After a change of the path, the data of the earlier path until the new data arrives. */
  readonly data: A | undefined
  /** Why the last read failed. */
  readonly error: Error | undefined
  /** Whether the data belongs to an earlier path. */
  readonly stale: boolean
  /** Reads again because the operator asks for it. */
  readonly reload: () => void
}

interface ResourceOptions {
  /** Which changes concern the data. Default: all. */
  readonly concerns?: (changes: ConsoleChanges) => boolean
  /** Milliseconds between two reads that changes cause. Default: 300. */
  readonly gap?: number
  /** Milliseconds after which the data is read again without any change. Default: never. */
  readonly every?: number
}

interface Shown<A> {
  readonly path: string
  readonly data: A | undefined
  readonly error: Error | undefined
}

/** Reads one path: never twice at once, and once more if changes arrived during a read. */
const makeReader = <A>(path: string, gap: number, show: (next: (before: Shown<A>) => Shown<A>) => void) => {
  let closed = false
  let reading = false
  let again = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const read = async (headers: Readonly<Record<string, string>>): Promise<void> => {
    if (reading) {
      again = true
      return
    }
    reading = true
    try {
      const data = await request<A>(path, { headers })
      if (!closed) show(() => ({ path, data, error: undefined }))
    } catch (error) {
      if (!closed) {
        show((before) => ({ path, data: before.path === path ? before.data : undefined, error: error as Error }))
      }
    }
    reading = false
    if (again) later()
    again = false
  }
  const later = (): void => {
    if (closed || timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      // A page in the background reads when it is shown again.
      if (document.hidden) document.addEventListener("visibilitychange", later, { once: true })
      else void read(unattended)
    }, gap)
  }
  const close = (): void => {
    closed = true
    clearTimeout(timer)
    document.removeEventListener("visibilitychange", later)
  }
  return { read: () => read({}), later, close }
}

export const useResource = <A>(path: string, options: ResourceOptions = {}): Resource<A> => {
  const { concerns = () => true, every, gap = 300 } = options
  const [shown, show] = useState<Shown<A>>({ path, data: undefined, error: undefined })
  const reload = useRef(() => {})
  useEffect(() => {
    const reader = makeReader<A>(path, gap, show)
    reload.current = () => void reader.read()
    void reader.read()
    const stop = onChanges((changes) => {
      if (changes.operations === null || concerns(changes)) reader.later()
    })
    const timer = every === undefined ? undefined : setInterval(reader.later, every)
    return () => {
      stop()
      clearInterval(timer)
      reader.close()
    }
  }, [path])
  return {
    data: shown.data,
    error: shown.path === path ? shown.error : undefined,
    stale: shown.path !== path,
    reload: () => reload.current()
  }
}

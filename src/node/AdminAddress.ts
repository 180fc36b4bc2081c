/**
 * The address of the admin listener: `ADMIN_PORT` and `ADMIN_HOST`.
 */
import * as Effect from "effect/Effect"
import { InvalidSetting } from "./InvalidSetting.ts"
import { addressOf } from "./ListenAddress.ts"
import { processNumber } from "./SupervisedProcess.ts"

/** Where the admin listener of a process listens. */
export interface AdminAddress {
  readonly host: string
  readonly port: number
}

/** The port of process `number`, from 1: each process has a listener and figures of its own. */
const addressIn = (first: AdminAddress, number: number): AdminAddress => ({
  host: first.host,
  port: first.port + number - 1
})

/** The address of this process, if the first one of its supervisor has `first`. */
export const addressOfProcess = (first: AdminAddress | null): AdminAddress | null =>
  first === null ? null : addressIn(first, processNumber ?? 1)

/** The URLs of the admin listeners, for the log: of this process, or of all processes of a supervisor. */
export const adminUrls = (first: AdminAddress | null, processes = 1): { readonly admin_url?: string } =>
  first === null
    ? {}
    : {
      admin_url: Array.from({ length: processes }, (_, at) => addressIn(first, at + 1))
        .map(({ host, port }) => addressOf(host, port)).join(" ")
    }

/** Fails if the ports of the admin listeners leave no port to one of them, or to the public listener. */
export const checkAdminPorts = (
  first: AdminAddress | null,
  { port, processes = 1 }: { readonly port?: number; readonly processes?: number }
): Effect.Effect<void, InvalidSetting> => {
  if (first === null) return Effect.void
  const last = first.port + processes - 1
  if (last > 65_535) {
    return Effect.fail(
      new InvalidSetting({
        message: `ADMIN_PORT must be at most ${65_535 - processes + 1}: each of the ${processes} processes takes a port`
      })
    )
  }
  return port !== undefined && first.port <= port && port <= last
    ? Effect.fail(
      new InvalidSetting({
        message: processes === 1
          ? "ADMIN_PORT must not be PORT: the admin listener takes a port of its own"
          : `ADMIN_PORT to ADMIN_PORT + ${processes - 1} must not include PORT: each process takes one of them`
      })
    )
    : Effect.void
}

/**
 * The metrics of a process, and the admin listener that serves them.
 */
import * as Layer from "effect/Layer"
import * as AdminServer from "../admin/AdminServer.ts"
import { addressOfProcess, type AdminAddress } from "./AdminAddress.ts"
import * as AdminListener from "./AdminListener.ts"

/**
 * The admin listener of this process, if `first` is the address of the first process. `more` are routes beside `/metrics`. Without
 * a listener, and without an exporter, nothing is counted.
 */
export const layer = <E = never, R = never>(first: AdminAddress | null, more?: AdminServer.AdminRoutes<E, R>) => {
  const admin = addressOfProcess(first)
  return admin === null ? Layer.empty : AdminServer.layer(more).pipe(Layer.provide(AdminListener.layer(admin)))
}

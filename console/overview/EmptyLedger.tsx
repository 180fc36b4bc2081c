import { Empty } from "../parts/Empty.tsx"

/** For a ledger without any operation. */
export const EmptyLedger = () => (
  <Empty title="The ledger has no operation yet">
    Operations appear here as soon as an application accepts a request. The page follows the ledger by itself.
  </Empty>
)

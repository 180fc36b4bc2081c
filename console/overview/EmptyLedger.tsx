import { Empty } from "../parts/Empty.tsx"

/** For a ledger without any operation. */
export const EmptyLedger = () => (
  <Empty title="The ledger has no operation yet">
    Operations appear here once an application accepts them.
  </Empty>
)

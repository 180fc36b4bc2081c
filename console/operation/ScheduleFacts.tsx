import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { Time } from "../parts/Time.tsx"
import { isUnsent } from "./isUnsent.ts"
import { NamedValues } from "./NamedValues.tsx"

type Hold = NonNullable<Detail["schedule"]["hold"]>

const HoldText = ({ hold, acknowledged, unsent }: {
  readonly hold: Hold
  readonly acknowledged: boolean
  readonly unsent: boolean
}) => (
  <>
    {hold.kind === "approval"
      ? "Waits for an approval"
      : hold.kind === "failover"
      ? "After a failover of the database"
      : "Placed"}
    <span class="secondary">
      {hold.kind === "approval"
        ? hold.by_operator
          ? "It waits for its approval."
          : "Only the decision of its resource owner or of an operator releases it."
        : acknowledged
        ? "Cannot be released: the provider confirmed that it received the operation."
        : unsent
        ? "Can be released or cancelled now: it was never sent."
        : hold.releasable_from === null
        ? "Cannot be released before a status read has examined it."
        : Date.parse(hold.releasable_from) <= Date.now()
        ? "Can be released now."
        : (
          <>
            Can be released <Time at={hold.releasable_from} />.
          </>
        )}
    </span>
  </>
)

const instant = (at: string | null) => at === null ? null : <Time at={at} />

/** What holds or claims the operation, and what the last component did. */
export const ScheduleFacts = (
  { detail: { acknowledged, last_read, operation, schedule } }: { readonly detail: Detail }
) => (
  <NamedValues
    values={[
      [
        "Hold",
        schedule.hold === null
          ? null
          : <HoldText hold={schedule.hold} acknowledged={acknowledged} unsent={schedule.unsent} />
      ],
      ["Claimed by", schedule.claimed_by],
      ["May be sent until", isUnsent(operation.state) ? instant(schedule.send_before) : null],
      ["Claim returned because", schedule.return_reason],
      ["Status reads", schedule.reads === 0 ? null : schedule.reads],
      [
        "Last answer",
        last_read === null ? null : (
          <>
            Read {last_read.read}: {last_read.answer}
            <span class="secondary">
              <Time at={last_read.at} />
            </span>
          </>
        )
      ],
      ["Fence began", instant(schedule.fence_started_at)],
      ["Last fence ends by", instant(schedule.fencing_until)],
      ["Last review ended", instant(schedule.reviewed_at)]
    ]}
  />
)

/** Whether the process of a worker sends to a provider, and if not, why. */
export const PauseBadge = ({ provider, reason }: {
  readonly provider: string
  readonly reason: string | null
}) => (
  <span class={reason === null ? "badge provider-sending" : "badge provider-paused"}>
    <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={reason === null ? "M1 6h10" : "M4 2v8M8 2v8"} />
    </svg>
    {provider} {reason === null ? "sending" : `paused: ${reason}`}
  </span>
)

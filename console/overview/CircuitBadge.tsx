const circuits = {
  closed: { label: "closed", shape: "M1 6h10" },
  half_open: { label: "half open", shape: "M1 6h3.5M7.5 6H11M4.5 6 8 3.6" },
  open: { label: "open", shape: "M1 6h3.5M7.5 6H11M4.5 6 7 1.6" }
} as const

/** The circuit of a provider in the process of a worker. An open one sends nothing. */
export const CircuitBadge = ({ circuit, provider }: {
  readonly provider: string
  readonly circuit: keyof typeof circuits
}) => (
  <span class={`badge circuit-${circuit}`}>
    <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={circuits[circuit].shape} />
    </svg>
    {provider} {circuits[circuit].label}
  </span>
)

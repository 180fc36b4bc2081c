/** The number of a position in the WAL, from its text, such as `16/B374D848`. */
export const walPosition = (text: string): bigint => {
  const [high, low] = text.split("/")
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

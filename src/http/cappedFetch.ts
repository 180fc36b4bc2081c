/**
 * `fetch` for servers that must not fill the memory of this process.
 */

/** Makes a `fetch` whose response bodies fail after this many bytes, counted after decompression. The rest is not read. */
export const cappedFetch = (limit: number): typeof globalThis.fetch => async (input, init) => {
  const response = await globalThis.fetch(input, init)
  if (response.body === null) return response
  let size = 0
  const body = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        size += chunk.length
        if (size > limit) controller.error(new Error(`The body is longer than ${limit} bytes`))
        else controller.enqueue(chunk)
      }
    })
  )
  const { headers, status, statusText } = response
  return new Response(body, { headers, status, statusText })
}

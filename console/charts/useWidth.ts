import type { RefObject } from "preact"
import { useEffect, useState } from "preact/hooks"

/** The width of the element in CSS pixels, as it changes. 0 before it is known. */
export const useWidth = (element: RefObject<HTMLElement | null>): number => {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)))
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return width
}

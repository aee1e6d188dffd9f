/** A time in the format of the page's reader. */
export function timeOf(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

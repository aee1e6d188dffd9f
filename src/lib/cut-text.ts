/** The beginning of a text that is longer, as a text of its own: what is cut off does not stay in memory with it. */
export function cutText(text: string, unitsMax: number): string {
  return text.length > unitsMax ? `${Buffer.from(text.slice(0, unitsMax)).toString()}…` : text;
}

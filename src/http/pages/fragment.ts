/**
 * HTML rendered in advance, as bytes: where it is most of a page, joining and encoding it again with the page would
 * take longer than all the rest. A template names it like any other value.
 */
export class Fragment {
  readonly bytes: Buffer;
  readonly #mark = `<!--fragment ${next++}-->`;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** The placeholder that templates insert: a comment, which no escaped text can contain. */
  toHTML(): string {
    return this.#mark;
  }
}

let next = 0;

/** The bytes of a page, with each fragment in place of its placeholder. */
export function withFragments(html: string, fragments: readonly Fragment[]): Buffer {
  const pieces: Buffer[] = [];
  let start = 0;
  for (const { 0: mark, index } of html.matchAll(/<!--fragment \d+-->/g)) {
    const fragment = fragments.find((each) => each.toHTML() === mark);
    if (!fragment) throw new Error(`the page names ${mark} and was not given it`);
    pieces.push(Buffer.from(html.slice(start, index)), fragment.bytes);
    start = index + mark.length;
  }
  return Buffer.concat([...pieces, Buffer.from(html.slice(start))]);
}

/** A source map, version 3, as esbuild writes it. */
export interface SourceMap {
  readonly version: number;
  readonly sources: readonly string[];
  readonly names: readonly string[];
  readonly mappings: string;
}

/** Keeps only the sources that `keep` accepts: packages are most of a map, and do not help a definition's author. */
export function keepSources(map: SourceMap, keep: (source: string) => boolean): SourceMap {
  const kept = map.sources.map((source, index) => ({ source, index })).filter(({ source }) => keep(source));
  const newIndex = new Map(kept.map(({ index }, position) => [index, position]));
  const names = new Map<number, number>();
  const mappings = rewrite(map.mappings, newIndex, names);
  return {
    version: map.version,
    sources: kept.map(({ source }) => source),
    names: [...names.keys()].map((name) => map.names[name]!),
    mappings,
  };
}

/** Fields of a segment: generated column, source, line, column, name; each relative to the one before it. */
type Fields = [column: number, source: number, line: number, originalColumn: number, name: number];

/** Fills `names` with the new index of each name that is still used. */
function rewrite(mappings: string, newIndex: ReadonlyMap<number, number>, names: Map<number, number>): string {
  const read: Fields = [0, 0, 0, 0, 0];
  const written: Fields = [0, 0, 0, 0, 0];
  const lines = mappings.split(";").map((line) => {
    read[0] = 0;
    written[0] = 0;
    let mapped = true; // True if the last written segment has a source. One without ends the mapping; a second is redundant.
    const segments: string[] = [];
    for (const segment of line === "" ? [] : line.split(",")) {
      const count = decode(segment, read);
      const source = count > 1 ? newIndex.get(read[1]) : undefined;
      if (source === undefined) {
        if (mapped) segments.push(encode([read[0]], written));
        mapped = false;
        continue;
      }
      mapped = true;
      if (count === 5 && !names.has(read[4])) names.set(read[4], names.size);
      segments.push(encode([read[0], source, read[2], read[3], names.get(read[4])!].slice(0, count), written));
    }
    return segments.join(",");
  });
  return lines.join(";");
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Adds a segment's deltas to `fields`; returns the number of deltas. */
function decode(segment: string, fields: Fields): number {
  let count = 0;
  let value = 0;
  let shift = 0;
  for (const digit of segment) {
    const bits = digits.indexOf(digit);
    value |= (bits & 31) << shift;
    shift += 5;
    if ((bits & 32) !== 0) continue;
    fields[count] = fields[count]! + ((value & 1) === 1 ? -(value >>> 1) : value >>> 1);
    count += 1;
    value = 0;
    shift = 0;
  }
  return count;
}

/** Writes absolute values as deltas from `fields`, which then hold those values. */
function encode(values: readonly number[], fields: Fields): string {
  let text = "";
  values.forEach((value, position) => {
    const difference = value - fields[position]!;
    fields[position] = value;
    let rest = difference < 0 ? (-difference << 1) | 1 : difference << 1;
    do {
      const more = rest > 31;
      text += digits[(rest & 31) | (more ? 32 : 0)];
      rest >>>= 5;
    } while (rest > 0);
  });
  return text;
}

/** Escapes references to source maps, which a bundler would read anywhere. Changes only raw template text. */
export function withoutMapReferences(text: string): string {
  return text.replace(mapReference, "$1\\u0073");
}

/** Matches up to the `s`, the only character that is replaced. */
export const mapReference = /([#@][ \t]*)s(?=ourceMappingURL)/g;

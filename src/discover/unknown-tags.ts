import { nearestName } from "../lib/near-names.ts";
import { constraintTags } from "./types/constraints.ts";
import type { Tag } from "./doc-comments.ts";

/** Why a tag of a comment says nothing here, unless it is one that Berth reads or one that other tools read. */
export function unknownTag<Node>({ name, written }: Tag<Node>): string | undefined {
  if (ownNames.has(name) || ofOthers.has(name) || !/^[a-z]/.test(name)) return undefined;
  return `@${written} is no tag that Berth knows, so it is ignored${suggestionFor(name)}`;
}

/** `; did you mean @minimum?`, or nothing. */
export function suggestionFor(name: string): string {
  const meant = otherWords[name] ?? nearestName(name, own);
  return meant === undefined || meant === name ? "" : `; did you mean @${meant}?`;
}

/** About an argument or a property, and of no effect in the comment of a function before its first `@param`. */
export function isAboutArguments({ name }: Pick<Tag, "name">): boolean {
  return aboutArguments.has(name);
}

const argumentTags = [...constraintTags, "integer", "default", "header"];
const aboutArguments: ReadonlySet<string> = new Set(argumentTags.map((name) => name.toLowerCase()));

const own: readonly string[] = [
  ...argumentTags,
  ...(
    "param title name signature description example deprecated returns internal resource prompt completes inputSchema task " +
    "readOnly destructive idempotent openWorld"
  ).split(" "),
];

const ownNames: ReadonlySet<string> = new Set([
  ...own.map((name) => name.toLowerCase()),
  ...(
    "arg argument property prop return examples int defaultvalue private hidden " +
    "readonlyhint destructivehint idempotenthint openworldhint"
  ).split(" "),
]);

/** Words that people use for what has another name here. */
const otherWords: Readonly<Record<string, string>> = Object.assign(Object.create(null), {
  min: "minimum",
  max: "maximum",
  regex: "pattern",
  regexp: "pattern",
  match: "pattern",
  unique: "uniqueItems",
  step: "multipleOf",
});

/** Standard tags of JSDoc, TSDoc and TypeDoc. */
const ofOthers: ReadonlySet<string> = new Set(
  (
    "abstract access alias alpha async augments author beta borrows callback category categorydescription class " +
    "classdesc const constant constructor constructs copyright decorator desc document emits enum event eventproperty " +
    "exception expand experimental exports extends external fields file fileoverview fires func function generator " +
    "global group groupdescription hideconstructor host ignore implements import include includecode inheritdoc inline " +
    "inner instance interface jsx jsxfrag jsximportsource jsxruntime kind label lends license link linkcode linkplain listens member memberof " +
    "mergemodulewith method mixes mixin modifies module namespace nosideeffects overload override overview package " +
    "packagedocumentation preserve preventexpand preventinline primaryexport privateremarks protected public pure " +
    "reexport remarks requires satisfies sealed see since static subcategory summary suppress template this throws todo " +
    "ts tutorial type typedef typeparam usedeclaredtype var variation version virtual yield yields eslint istanbul"
  ).split(" "),
);

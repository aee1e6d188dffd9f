import ts from "#typescript";
import { nearestName } from "../lib/near-names.ts";
import type { Candidate, Parameter } from "./exports.ts";
import { takes } from "./parameters.ts";
import type { Reporter } from "./reporter.ts";
import { isAboutArguments, unknownTag } from "./unknown-tags.ts";

interface Described {
  /** Those that are arguments; the host's context is none. */
  readonly parameters: readonly Parameter[];
  /** Its lone parameter is all arguments in one object, which a comment may call as it likes. */
  readonly isFlat: boolean;
  readonly checker: ts.TypeChecker;
  readonly isLibrary: (file: ts.SourceFile) => boolean;
}

/** Says what the comment of a function means to say and does not: names of no parameter, and tags that are none. */
export function reportComment(
  { doc, implementation, signature }: Candidate,
  described: Described,
  reporter: Reporter,
): void {
  for (const tag of doc.tags) {
    const unknown = unknownTag(tag);
    if (unknown !== undefined) reporter.add("warning", "unknown-tag", unknown, tag.node);
    else if (isAboutArguments(tag)) {
      const message = `@${tag.written} is about an argument and has no effect here; write it below the @param of one`;
      reporter.add("warning", "constraint-without-effect", message, tag.node);
    }
  }
  const written = [
    ...signature.getParameters().map(({ name }) => name),
    ...(implementation?.parameters.map(({ name }) => name.getText()) ?? []),
  ];
  const faultOf = described.isFlat ? faultInFlat : faultInPositional;
  for (const [name, node] of doc.paramNodes) {
    // A function of the language that is exported under another name brings a comment that nobody here can mend.
    const isOthers = name === "" || described.isLibrary(node.getSourceFile());
    const fault = isOthers ? undefined : faultOf(name, described, { written, all: [...doc.params.keys()] });
    if (fault === undefined) continue;
    const suggestion = fault.meant === undefined ? "" : `; did you mean ${fault.meant}?`;
    reporter.add("warning", "unknown-parameter", `@param ${name}: there is no such ${fault.what}${suggestion}`, node);
  }
}

interface NameFault {
  readonly what: "parameter" | "property";
  readonly meant: string | undefined;
}

interface Names {
  /** Names of all parameters, as the type and as the implementation call them. */
  readonly written: readonly string[];
  /** All that the comment has. */
  readonly all: readonly string[];
}

function faultInPositional(
  name: string,
  { parameters, checker }: Described,
  { written }: Names,
): NameFault | undefined {
  const [first = "", ...inner] = steps(name);
  const known = [...parameters.flatMap(namesOf), ...written];
  if (!known.includes(first) && parameters.some((parameter) => takes(parameter, first, checker))) return undefined;
  if (!known.includes(first)) return { what: "parameter", meant: nearestName(first, known) };
  const parameter = parameters.find((each) => each.name === first);
  return parameter && faultInType(inner, parameter.type, checker);
}

/** `@param options`, `@param options.size` and `@param size` are all read. */
function faultInFlat(name: string, { parameters, checker }: Described, { written, all }: Names): NameFault | undefined {
  const [first = "", ...inner] = steps(name);
  const { type } = parameters[0]!;
  const whole = faultInType([first, ...inner], type, checker);
  if (!whole) return undefined;
  if (inner.length > 0) return faultInType(inner, type, checker);
  const isRoot = written.includes(first) || all.some((other) => other.startsWith(`${first}.`));
  return isRoot || whole.meant === undefined ? undefined : whole;
}

function faultInType(path: readonly string[], type: ts.Type, checker: ts.TypeChecker): NameFault | undefined {
  let at = type;
  for (const step of path) {
    at = elementOf(checker.getNonNullableType(at), checker);
    const isObject = Boolean(at.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection));
    if (!isObject || checker.getIndexInfosOfType(at).length > 0) return undefined;
    const known = checker.getPropertiesOfType(at);
    const property = known.find(({ name }) => name === step);
    const meant = (): string | undefined =>
      nearestName(
        step,
        known.map(({ name }) => name),
      );
    if (!property) return known.length === 0 ? undefined : { what: "property", meant: meant() };
    at = checker.getTypeOfSymbol(property);
  }
  return undefined;
}

function elementOf(type: ts.Type, checker: ts.TypeChecker): ts.Type {
  return checker.isArrayLikeType(type) ? (checker.getIndexTypeOfType(type, ts.IndexKind.Number) ?? type) : type;
}

/** `list[].at` → `list`, `at`. */
function steps(name: string): string[] {
  return name.split(".").map((step) => step.replace(/\[\]$/, ""));
}

/** The tail of a rest parameter has names of its own; a comment may well name the whole. */
function namesOf({ name, declaration }: Parameter): string[] {
  const parameter = declaration && ts.findAncestor(declaration, ts.isParameter);
  return parameter && ts.isIdentifier(parameter.name) ? [name, parameter.name.text] : [name];
}

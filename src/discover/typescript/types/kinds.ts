import ts from "#typescript";

/** Questions about types that TypeScript's API answers only in parts, or not at all. */

/** A type that could not be resolved: misspelled, or imported from a module that the definition does not have. */
export function isUnresolved(type: ts.Type): boolean {
  const { intrinsicName } = type as { intrinsicName?: string };
  return Boolean(type.flags & ts.TypeFlags.Any) && (intrinsicName === "error" || intrinsicName === "unresolved");
}

export function isFunction(type: ts.Type): boolean {
  return isCallable(type) || type.getConstructSignatures().length > 0;
}

export function isCallable(type: ts.Type): boolean {
  return type.getCallSignatures().length > 0;
}

export function isObjectLike({ flags }: ts.Type): boolean {
  return Boolean(flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection));
}

/** The symbol that an import or export refers to; any other symbol unchanged. */
export function followAlias<S extends ts.Symbol | undefined>(symbol: S, checker: ts.TypeChecker): ts.Symbol | S {
  return symbol && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The value that a name refers to at a location. */
export function valueInScope(name: string, location: ts.Node, checker: ts.TypeChecker): ts.Symbol | undefined {
  const { resolveName } = checker as unknown as {
    resolveName: (name: string, at: ts.Node, meaning: ts.SymbolFlags, excludeGlobals: boolean) => ts.Symbol | undefined;
  };
  return resolveName(name, location, ts.SymbolFlags.Value, true);
}

/** True for types whose values are absent from JSON. */
export function isUndefinedOrVoid(type: ts.Type): boolean {
  return Boolean(type.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Void));
}

/** The members of a type; those that depend on the caller are replaced by the members of their constraint. */
export function resolvedMembers(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  return unionMembers(type).flatMap((member) => {
    return unionMembers(isGeneric(member) ? (checker.getBaseConstraintOfType(member) ?? member) : member);
  });
}

export function mayBeUndefined(type: ts.Type, checker: ts.TypeChecker): boolean {
  return resolvedMembers(type, checker).some(isUndefinedOrVoid);
}

export function isNull(type: ts.Type): boolean {
  return Boolean(type.flags & ts.TypeFlags.Null);
}

/** A type that depends on the caller: a type parameter, or a type computed from one. */
export function isGeneric(type: ts.Type): boolean {
  const decided = ts.TypeFlags.TemplateLiteral | ts.TypeFlags.StringMapping;
  return Boolean(type.flags & ts.TypeFlags.Instantiable) && !(type.flags & decided);
}

export function unionMembers(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}

/** Equal for types that have the same schema, regardless of `undefined`. */
export function schemaKey(type: ts.Type, without: (member: ts.Type) => boolean = () => false): string {
  const members = unionMembers(type).filter((member) => !isUndefinedOrVoid(member) && !without(member));
  return members
    .map((member) => (member as unknown as { id: number }).id)
    .sort((a, b) => a - b)
    .join(",");
}

/** The name of a type declared by the language or the host, such as `Date`; undefined for the author's own types. */
export function libraryName(type: ts.Type, isLibrary: (file: ts.SourceFile) => boolean): string | undefined {
  const declarations = type.symbol?.declarations ?? [];
  const isLibraryType =
    declarations.length > 0 && declarations.every((declaration) => isLibrary(declaration.getSourceFile()));
  return isLibraryType && type.flags & ts.TypeFlags.Object ? type.symbol.name : undefined;
}

/** The name that the author gave to a type. */
export function typeName(type: ts.Type): string | undefined {
  const name = type.aliasSymbol?.name ?? type.symbol?.name ?? "";
  return name.startsWith("__") || name === "" ? undefined : name;
}

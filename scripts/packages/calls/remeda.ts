import * as R from "remeda";

/** The names of the users that are older than 20. */
export function names(): string[] {
  const users = [
    { name: "john", age: 20 },
    { name: "marry", age: 22 },
    { name: "ann", age: 24 },
  ];
  return R.pipe(
    users,
    R.filter((user) => user.age > 20),
    R.map((user) => user.name),
    R.take(1),
  );
}

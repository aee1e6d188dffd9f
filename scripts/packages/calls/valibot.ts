import * as v from "valibot";

const Login = v.object({
  email: v.pipe(v.string(), v.email()),
  password: v.pipe(v.string(), v.minLength(8)),
});

/** Says what is wrong with a login. */
export function issues(): string[] {
  const result = v.safeParse(Login, { email: "jane@example.com", password: "short" });
  return result.success ? [] : result.issues.map(({ message }) => message);
}

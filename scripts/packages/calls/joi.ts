import Joi from "joi";

const schema = Joi.object({
  username: Joi.string().alphanum().min(3).max(30).required(),
  email: Joi.string().email({ minDomainSegments: 2, tlds: { allow: ["com", "net"] } }),
});

/** Says what is wrong with a user. */
export function problem(): string {
  return schema.validate({ username: "abc", email: "a@b" }).error?.message ?? "none";
}

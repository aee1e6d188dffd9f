/** One year of paying back. */
interface Year {
  year: number;
  interest: number;
  /** What of the loan is paid back in it. */
  repaid: number;
  /** What is still owed at its end. */
  owed: number;
}

/** A loan with all that is paid for it. */
interface Plan {
  amount: number;
  rate: number;
  years: number;
  monthly: number;
  /** All of the interest together. */
  interest: number;
  plan: Year[];
}

/**
 * Shows in a chart how a loan is paid back in equal monthly payments. The user can change the numbers there.
 *
 * @param amount - What is borrowed, in any currency.
 * @minimum 1
 * @maximum 1000000000
 * @param rate - The interest of a year, in percent.
 * @minimum 0
 * @maximum 100
 * @param years - How long it is paid back.
 * @integer
 * @minimum 1
 * @maximum 50
 * @readOnly
 * @ui loan.html
 */
export function repay(amount: number, rate: number, years: number): Plan {
  const months = years * 12;
  const monthlyRate = rate / 100 / 12;
  const monthly = rate === 0 ? amount / months : (amount * monthlyRate) / (1 - (1 + monthlyRate) ** -months);
  const plan: Year[] = [];
  let owed = amount;
  for (let year = 1; year <= years; year += 1) {
    const before = owed;
    for (let month = 0; month < 12; month += 1) owed += owed * monthlyRate - monthly;
    const repaid = before - owed;
    plan.push({ year, interest: cents(monthly * 12 - repaid), repaid: cents(repaid), owed: cents(owed) });
  }
  return { amount, rate, years, monthly: cents(monthly), interest: cents(monthly * months - amount), plan };
}

/** Never -0, which the last cent of a loan may leave. */
function cents(value: number): number {
  return Math.round(value * 100) / 100 + 0;
}

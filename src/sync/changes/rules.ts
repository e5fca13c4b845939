// What the table of the reader is made of: states with rules, of which the first that fits is taken.

import type { Action, Effects, Event, Reading, StateName } from './state.ts'

/** Where a rule leads, and what else is to be done where there is something. */
export type Move<To extends StateName = StateName> =
  | Reading<To>
  | { readonly reading: Reading<To>; readonly effects: Partial<Effects> }

export type DeclaredRule = { readonly name: string; readonly to: StateName }

export type Rule<Seen> = DeclaredRule & { readonly take: (seen: Seen) => Move | null }

/** It fits when `when` answers anything but `false`, and `then` is told what that was. */
export function rule<Seen, To extends StateName, Found>(
  name: string,
  to: To,
  when: (seen: Seen) => Found | false,
  then: (seen: Seen, found: Found) => Move<To>,
): Rule<Seen> {
  return {
    name,
    to,
    take(seen) {
      const found = when(seen)
      return found === false ? null : then(seen, found)
    },
  }
}

export const otherwise = <Seen, To extends StateName>(
  name: string,
  to: To,
  then: (seen: Seen) => Move<To>,
): Rule<Seen> => rule(name, to, () => true, then)

export type Taken = { readonly rule: string; readonly move: Move }

/** The first that fits. */
export function firstOf<Seen>(rules: readonly Rule<Seen>[], seen: Seen): Taken | null {
  for (const { name, take } of rules) {
    const move = take(seen)
    if (move) return { rule: name, move }
  }
  return null
}

export type StateRow<Name extends StateName> = {
  /** In words, for the manual. */
  readonly asks: string
  readonly action: (reading: Reading<Name>) => Action
  readonly rules: readonly DeclaredRule[]
  readonly next: (reading: Reading<Name>, event: Event) => Taken | null
}

export function row<Name extends StateName, Seen>(given: {
  readonly asks: string
  readonly action: (reading: Reading<Name>) => Action
  readonly see: (reading: Reading<Name>, event: Event) => Seen
  readonly rules: readonly Rule<Seen>[]
}): StateRow<Name> {
  const { see, rules } = given
  return { ...given, next: (reading, event) => firstOf(rules, see(reading, event)) }
}

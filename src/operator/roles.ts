// Who may do what: three roles, each of which may do all that the one before it may, and one table for all actions.

export const roles = ['viewer', 'operator', 'admin'] as const
export type Role = (typeof roles)[number]

/** An operator keeps the mirror running. An admin also does what cannot be undone, and decides who may do what. */
export const neededRole = {
  sync: 'operator',
  pause: 'operator',
  resume: 'operator',
  probe: 'operator',
  acknowledge: 'operator',
  approve: 'operator',
  reject: 'operator',
  lookAgain: 'operator',
  backfill: 'operator',
  cancelBackfill: 'operator',
  rewind: 'operator',
  retryQuarantine: 'operator',
  testAlert: 'operator',
  muteAlerts: 'operator',
  unmuteAlerts: 'operator',
  acknowledgeProblem: 'operator',
  dropQuarantine: 'admin',
  setSetting: 'admin',
  unsetSetting: 'admin',
  setReceiver: 'admin',
  setRule: 'admin',
  removeAlerting: 'admin',
  undoAlerting: 'admin',
  createToken: 'admin',
  revokeToken: 'admin',
  endSessions: 'admin',
} as const satisfies Readonly<Record<string, Role>>

export const mayAs = (role: Role, needed: Role): boolean => roles.indexOf(role) >= roles.indexOf(needed)

/** What others call those who have a role here. */
export type RoleGroups = Readonly<Record<Role, readonly string[]>>

/** The highest that one of these gives. Null: none does. */
export const roleOf = (given: readonly string[], groups: RoleGroups): Role | null =>
  roles.findLast((role) => groups[role].some((group) => given.includes(group))) ?? null

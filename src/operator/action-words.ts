// What people did, in words, followed by what they did it to.

export const actionWords: Readonly<Record<string, string>> = {
  sync: 'read',
  pause: 'paused',
  resume: 'resumed',
  backfill: 'asked for a backfill of',
  acknowledge: 'acknowledged missed rows of',
  probe: 'checked',
  approve: 'approved deletions of',
  reject: 'rejected deletions of',
  lookAgain: 'asked to look again for deletions of',
  rewind: 'moved back the position of',
  cancelBackfill: 'stopped backfill',
  repair: 'compared and repaired',
  adopt: 'took for the source of the rows here:',
  retryQuarantine: 'tried again, in quarantine:',
  dropQuarantine: 'dropped from quarantine:',
  testAlert: 'sent a test of',
  muteAlerts: 'muted alerts of',
  unmuteAlerts: 'ended the silence of',
  acknowledgeProblem: 'acknowledged the problem',
  setSetting: 'set',
  unsetSetting: 'undid the change of',
  endSessions: 'ended',
  signIn: 'signed in as',
  signOut: 'signed out as',
  lockedOut: 'gave too many wrong tokens at',
  download: 'downloaded',
  api: 'wrote to the upstream:',
  privacy: 'put in force what is private of',
  erase: 'erased from',
  sql: 'looked into the mirror with',
  forget: 'removed old lines of this record; the last had the hash',
}
/** The words alone, without what the action was done to. */
export const actionInWords = (action: string): string =>
  (actionWords[action] ?? action).replace(/(:| of)$/, '')

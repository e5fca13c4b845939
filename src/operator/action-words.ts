// What people did, in words, followed by what they did it to.

/** When it was done, and what somebody tried who was refused or met a failure. */
const actionWords: Readonly<Record<string, readonly [done: string, tried?: string]>> = {
  sync: ['read', 'read'],
  pause: ['paused', 'pause'],
  resume: ['resumed', 'resume'],
  backfill: ['asked for a backfill of', 'ask for a backfill of'],
  acknowledge: ['acknowledged missed rows of', 'acknowledge missed rows of'],
  probe: ['checked', 'check'],
  approve: ['approved deletions of', 'approve deletions of'],
  reject: ['rejected deletions of', 'reject deletions of'],
  lookAgain: ['asked to look again for deletions of', 'look again for deletions of'],
  rewind: ['moved back the position of', 'move back the position of'],
  cancelBackfill: ['stopped backfill', 'stop backfill'],
  repair: ['compared and repaired', 'compare and repair'],
  adopt: ['took for the source of the rows here:', 'take for the source of the rows here:'],
  retryQuarantine: ['tried again, in quarantine:', 'try again, in quarantine:'],
  dropQuarantine: ['dropped from quarantine:', 'drop from quarantine:'],
  testAlert: ['sent a test of', 'send a test of'],
  muteAlerts: ['muted alerts of', 'mute alerts of'],
  unmuteAlerts: ['ended the silence of', 'end the silence of'],
  acknowledgeProblem: ['acknowledged the problem', 'acknowledge the problem'],
  setSetting: ['set', 'set'],
  unsetSetting: ['undid the change of', 'undo the change of'],
  setReceiver: ['set up for alerts:', 'set up for alerts:'],
  setRule: ['set up for alerts:', 'set up for alerts:'],
  removeAlerting: ['removed from alerts:', 'remove from alerts:'],
  undoAlerting: ['undid the last change of alerts:', 'undo the last change of alerts:'],
  endSessions: ['ended', 'end'],
  createToken: ['made the token', 'make the token'],
  revokeToken: ['revoked the token', 'revoke the token'],
  signIn: ['signed in as'],
  signOut: ['signed out as'],
  lockedOut: ['gave too many wrong tokens at'],
  download: ['downloaded'],
  api: ['wrote to the upstream:', 'write to the upstream:'],
  privacy: ['put in force what is private of', 'put in force what is private of'],
  erase: ['erased from', 'erase from'],
  sql: ['looked into the mirror with'],
  forget: ['removed old lines of this record; the last had the hash'],
}

/** Nobody did what was refused or failed: they tried to (P18). */
export function deedInWords({ action, result }: Record<'action' | 'result', string>): string {
  const [done = action, tried] = actionWords[action] ?? []
  return tried !== undefined && (result === 'refused' || result === 'failed') ? `tried to ${tried}` : done
}

/** The words of what was done alone, without what it was done to. */
export const actionInWords = (action: string): string =>
  (actionWords[action]?.[0] ?? action).replace(/(:| of)$/, '')

/** What goes on has no answer yet, and never gets one if its worker is killed. */
export const toldInWords = ({ result, told }: { readonly result: string; readonly told: string }): string =>
  told === '' && result === 'begun' ? 'It is not over, or what came of it could not be recorded.' : told

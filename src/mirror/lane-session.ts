// How long Postgres keeps a lane for a program that says nothing. A frozen program, or one whose machine is gone, leaves a session
// that looks alive, and with it the lane: so the session says a word now and then, and Postgres itself ends one that does not (P8).

/** Longer than any page of JSON keeps this program from speaking. */
export const longestSilenceMs = 30_000
const wordsPerSilence = 3

/** Returns what ends it. A word that fails is no news: the next statement of the run fails as well. */
export function keepSpeaking(speak: () => Promise<unknown>, silenceMs: number): () => void {
  let isSpeaking = false
  const timer = setInterval(async () => {
    if (isSpeaking) return
    isSpeaking = true
    await speak().catch(() => {})
    isSpeaking = false
  }, silenceMs / wordsPerSilence)
  timer.unref()
  return () => clearInterval(timer)
}

import Basics
import TestSupport
import Testing

@Suite struct ManualTimeTests {
    let time = ManualTime()

    @Test func sleepersWakeWhenTheirTimeHasCome() async throws {
        let start = time.now()
        let time = time
        async let slept: Void = time.sleep(for: .seconds(10))
        await time.waitForSleepers()
        time.advance(by: .seconds(9))
        #expect(time.sleepers == 1)
        time.advance(by: .seconds(1))
        try await slept
        #expect(time.now() - start == .seconds(10))
    }

    @Test func aCancelledSleeperWakesAtOnce() async {
        let time = time
        let task = Task { () -> Bool in
            do {
                try await time.sleep(for: .seconds(10))
                return true
            } catch { return false }
        }
        await time.waitForSleepers()
        task.cancel()
        #expect(await !task.value)
        #expect(time.sleepers == 0)
    }

    @Test func aSeedRepeatsItsNumbers() {
        var (first, second, other) = (SeededGenerator(seed: 7), SeededGenerator(seed: 7), SeededGenerator(seed: 8))
        let bytes = first.bytes(100)
        #expect(bytes.count == 100)
        #expect(bytes == second.bytes(100))
        #expect(bytes != other.bytes(100))
    }
}

import Commits
import Journaling
import Testing

extension JobRunner {
    /// Finishes a job that a process has written down and not carried out; twice, as a crash in its end has it done again.
    func finishTwice(_ intent: JobIntent, items: [ItemRecord] = [], in journal: Journal) async throws {
        let id = journal.newID()
        try journal.write([.job(id, intent, items: items)], flushed: true)
        let job = try #require(try journal.contents().jobs[id])
        for _ in 0..<2 { try await finish(id, job) }
        #expect(try journal.contents().isEmpty)
    }
}

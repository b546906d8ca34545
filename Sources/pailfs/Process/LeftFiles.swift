import Basics
import Journaling

/// The files that the journal of an unmounted mount still names, for the record of a mount whose workers have died.
enum LeftFiles {
    /// One line a file, and one for the jobs; `arguments` are those of the mount.
    static func lines(of arguments: [String], in directory: String) -> [String] {
        do throws(CommandError) {
            guard arguments.count >= 2 else { return [] }
            let options = stride(from: 3, to: arguments.count, by: 2).map { arguments[$0] }
            let request = try MountRequest(
                url: arguments[0], mountpoint: arguments[1], options: options, directory: directory,
                environment: MountRequest.takingOver(Entry.environment))
            return try lines(in: DirectoryPair.found(for: request))
        } catch { return ["the journal cannot be read (\(error.message))"] }
    }

    private static func lines(in place: DirectoryPair) throws(CommandError) -> [String] {
        do throws(JournalingError) {
            let cache = try LocalDirectories(existing: place)
            defer { withExtendedLifetime(cache) {} }
            let journal = try Journal(path: place.journal)
            defer { journal.close() }
            let contents = try journal.contents()
            let files = contents.files.values.map { "\($0.key) (the process that stored it died)" }.sorted()
            let jobs = contents.jobs.isEmpty ? [] : ["renames and removals under way: \(contents.jobs.count)"]
            return files + jobs
        } catch { throw CommandError(error.description) }
    }
}

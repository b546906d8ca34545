import ArgumentParser
import Basics
import ObjectStorage

/// Shows the storage class of an object, or moves it to another.
struct ClassCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "class", abstract: "Shows or changes the storage class of an object.")

    @OptionGroup var object: ObjectArguments
    @Argument(help: ArgumentHelp("The new storage class.", valueName: "class")) var storageClass: String?

    mutating func run() throws {
        let (session, key) = try object.object(changing: storageClass != nil)
        let classes = session.capabilities.storageClasses
        guard let wanted = storageClass else {
            let info = try session.answer { store async throws(ObjectStoreError) in
                try await store.head(key, condition: nil)
            }
            return print(info.storageClass ?? classes.first ?? "standard")
        }
        guard classes.isEmpty || classes.contains(wanted) else {
            throw CommandError(
                "\(wanted) is not a storage class of this store; write one of \(classes.joined(separator: ", "))")
        }
        let info = try session.answer { store async throws(ObjectStoreError) in
            try await store.head(key, condition: nil)
        }
        // Of a large object the store copies part after part, and the upload is aborted when one fails.
        _ = try session.answer(inTime: false) { store async throws(ObjectStoreError) in
            try await store.setStorageClass(of: key, to: wanted, ifMatch: info.version.etag)
        }
        session.target?.noteChange()
    }
}

/// Asks the store to make an archived object readable.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Requests a readable copy of an archived object.")

    @OptionGroup var object: ObjectArguments
    @Option(help: "Days until the store deletes the copy. Default: the store's.") var days: Int?
    @Option(help: "Speed, as the store spells it: Standard, Expedited or Bulk.") var tier: String?

    mutating func validate() throws {
        guard days.map({ $0 > 0 }) ?? true else { throw ValidationError("--days must be a number above 0") }
    }

    mutating func run() throws {
        let (session, key) = try object.object(changing: true)
        let wanted = RestoreRequest(days: days, tier: tier)
        let state = try session.answer { store async throws(ObjectStoreError) in
            try await store.restore(key, wanted)
            return try await store.head(key, condition: nil).restore
        }
        switch state {
        case .ongoing?: print("ongoing; \"pailfs stat\" shows when it is done")
        case .restored(let until)?: print(until.map { "readable until \($0.iso8601())" } ?? "readable")
        case nil: print("asked for")
        }
    }
}

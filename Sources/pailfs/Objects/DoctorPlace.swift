import Basics
import ObjectStorage

/// Where the doctor makes objects: below a prefix that no other objects have.
struct DoctorPlace {
    static let body = Array("pailfs was here".utf8)
    /// An ETag that none of its objects has.
    static let otherETag = ETag("00000000000000000000000000000000")

    private let prefix = ByteString(".pailfs-doctor-" + RandomID.hex() + "/")

    func key(_ name: ByteString) -> ObjectKey { ObjectKey(prefix + name) }

    /// A key of exactly `length` bytes, in components that are short enough for file systems.
    func key(ofLength length: Int) -> ObjectKey {
        var key = prefix
        while length - key.count > 101 {
            key = key + ByteString([UInt8](repeating: UInt8(ascii: "k"), count: 100)) + "/"
        }
        return ObjectKey(key + ByteString([UInt8](repeating: UInt8(ascii: "k"), count: max(1, length - key.count))))
    }

    /// The objects there, in the order of the listing.
    func listing(_ session: ObjectStoreSession) throws(CommandError) -> [ListedObject] {
        var objects: [ListedObject] = []
        try session.pages(ListRequest(prefix: prefix)) { page throws(CommandError) in
            objects += page.objects
            return true
        }
        return objects
    }

    /// Deletes everything that the checks have made.
    func clear(_ session: ObjectStoreSession, _ report: DoctorReport) {
        report.check("remove these objects") { () throws(CommandError) in
            for object in try listing(session).reversed() {
                do throws(CommandError) {
                    try session.answer { store async throws(ObjectStoreError) in
                        try await store.delete(object.key, ifMatch: nil)
                    }
                } catch { throw CommandError("\(error.message); delete all keys below \(prefix)") }
            }
            let rest = try listing(session).count
            guard rest == 0 else {
                throw CommandError("\(rest) objects are still listed; delete all keys below \(prefix)")
            }
            return nil
        }
    }
}

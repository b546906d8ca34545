import Basics
import FoundationEssentials
import ObjectStorage

/// The JSON of Swift's answers and of manifests.
enum SwiftDocuments {
    /// One entry of a container's listing: an object, or a common prefix (OpenStack Object Storage API, containers).
    struct Entry: Decodable, Sendable {
        var name: String?
        var subdir: String?
        var hash: String?
        var bytes: ListedLength?
        var contentType: String?
        var lastModified: String?
        var sloETag: String?
        var symlinkPath: String?
        var symlinkBytes: Int64?

        enum CodingKeys: String, CodingKey {
            case name, subdir, hash, bytes
            case contentType = "content_type"
            case lastModified = "last_modified"
            case sloETag = "slo_etag"
            case symlinkPath = "symlink_path"
            case symlinkBytes = "symlink_bytes"
        }

        /// nil for an invalid length.
        var length: Int64? { bytes.map(\.bytes) ?? 0 }

        /// UTC, although the text does not say so.
        var modified: Timestamp? {
            lastModified.flatMap { Timestamp(iso8601: $0.hasSuffix("Z") ? $0 : $0 + "Z") }
        }
    }

    static func entries(_ body: [UInt8]) -> [Entry]? {
        // Some servers send no body for an empty container.
        body.isEmpty ? [] : try? JSONDecoder().decode([Entry].self, from: Data(body))
    }

    /// One container of an account's listing.
    struct Container: Decodable, Sendable {
        var name: String
    }

    static func containers(_ body: [UInt8]) -> [Container]? {
        body.isEmpty ? [] : try? JSONDecoder().decode([Container].self, from: Data(body))
    }

    /// An element of a new manifest (Swift documentation, static large objects).
    struct Segment: Encodable, Sendable {
        var path: String
        var etag: String
        var size: Int64

        enum CodingKeys: String, CodingKey {
            case path, etag
            case size = "size_bytes"
        }
    }

    static func manifest(_ segments: [Segment]) -> [UInt8]? {
        (try? JSONEncoder().encode(segments)).map { Array($0) }
    }

    /// The segments that a manifest names, as `/container/object`; elements of literal data have none.
    static func segmentPaths(_ body: [UInt8]) -> [String]? {
        struct Element: Decodable { var name: String? }
        return (try? JSONDecoder().decode([Element].self, from: Data(body)))?.compactMap(\.name)
    }

    /// The errors of segments in the answer to a refused manifest.
    static func segmentErrors(_ body: [UInt8]) -> [[String]] {
        struct Report: Decodable {
            var errors: [[String]]
            enum CodingKeys: String, CodingKey { case errors = "Errors" }
        }
        return (try? JSONDecoder().decode(Report.self, from: Data(body)))?.errors ?? []
    }

    /// The answer to a bulk request (Swift documentation, bulk delete).
    struct BulkReport: Sendable {
        /// Such as `200 OK`, from the body.
        var text: String
        /// Path and status of each failed object.
        var errors: [(path: String, status: String)]

        var status: Int { Int(text.prefix(3)) ?? 500 }
        /// A bulk request for which no object existed has "404 Not Found" and has succeeded.
        var isSuccess: Bool { errors.isEmpty && (200..<300 ~= status || status == 404) }
    }

    static func bulkReport(_ body: [UInt8]) -> BulkReport? {
        struct Report: Decodable {
            var status: String
            var body: String?
            var errors: [[String]]
            enum CodingKeys: String, CodingKey {
                case status = "Response Status"
                case body = "Response Body"
                case errors = "Errors"
            }
        }
        guard let report = try? JSONDecoder().decode(Report.self, from: Data(body)) else { return nil }
        let text = report.status + (report.body.map { $0.isEmpty ? "" : " " + $0 } ?? "")
        return BulkReport(text: text, errors: report.errors.filter { $0.count == 2 }.map { ($0[0], $0[1]) })
    }
}

package import Basics

/// Why the storage refused; each dialect spells these in its own error documents.
package enum StorageError: Error, Sendable, Equatable {
    case noSuchBucket
    case bucketExists
    case bucketNotEmpty
    case noSuchKey
    case noSuchUpload
    /// The key exists although it must not, or its ETag is another.
    case conditionFailed
    /// The key was written or removed after the upload began, whose completion has a condition.
    case overtaken
    /// A part that was never uploaded, or whose ETag is another.
    case invalidPart(number: Int)
    /// Part numbers that do not ascend.
    case partOrder
    /// A part other than the last below the smallest size allowed, in bytes.
    case partTooSmall(number: Int, size: Int64, smallest: Int64, etag: String)
    /// A call of the operating system failed.
    case system(FileError)
    /// What is on disk cannot be read as what it should be.
    case damaged(path: String)
    /// Another process serves this directory.
    case directoryInUse(String)
}

extension StorageError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .noSuchBucket: "no such bucket"
        case .bucketExists: "the bucket exists"
        case .bucketNotEmpty: "the bucket is not empty"
        case .noSuchKey: "no such key"
        case .noSuchUpload: "no such upload"
        case .conditionFailed: "a condition of the request does not hold"
        case .overtaken: "the key changed since the upload began"
        case .invalidPart(let number): "part \(number) is missing or another"
        case .partOrder: "part numbers do not ascend"
        case .partTooSmall(let number, let size, let smallest, _):
            "part \(number) has \(size) bytes, fewer than \(smallest)"
        case .system(let error): error.description
        case .damaged(let path): "\(path) is damaged"
        case .directoryInUse(let path): "another process serves \(path)"
        }
    }
}
